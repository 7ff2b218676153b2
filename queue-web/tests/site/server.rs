//! The server of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use leasehold_web::{ServeError, Server, Serving, Site};

use crate::support::*;

/// One request, written by hand; the whole answer.
fn ask(serving: &Serving, request: &str) -> String {
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    let request = format!("{request}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn any() -> SocketAddr {
    "0.0.0.0:0".parse().unwrap()
}

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

conformance!(
    fn an_address_that_others_reach_is_refused_without_a_token(db: &mut Db) {
        prepare(db);
        let refused = Server::bind(reader(db), any()).unwrap_err();
        assert!(matches!(refused, ServeError::Remote { .. }));
        assert!(refused.to_string().contains("SiteBuilder::token"), "{refused}");
        let v6: SocketAddr = "[::]:0".parse().unwrap();
        assert!(matches!(Server::bind(reader(db), v6), Err(ServeError::Remote { .. })));
        Server::bind(open(db, Site::builder().token(TOKEN)), any()).unwrap();
        Server::bind(open(db, Site::builder().authenticate(|_| None)), any()).unwrap();
    }
);

conformance!(
    fn it_answers_over_a_socket_until_it_is_stopped(db: &mut Db) {
        prepare(db);
        let serving = Server::bind(reader(db), local()).unwrap().start().unwrap();
        let answer = ask(&serving, "GET / HTTP/1.1\r\nhost: localhost");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'"),
            "{answer}"
        );
        assert!(answer.ends_with("</html>"), "{answer}");
        let address = serving.address();
        serving.stop();
        assert!(TcpStream::connect(address).is_err());
    }
);

conformance!(
    fn a_server_of_this_machine_is_asked_by_its_names_alone(db: &mut Db) {
        prepare(db);
        let serving = Server::bind(open(db, Site::builder().token(TOKEN)), local())
            .unwrap()
            .start()
            .unwrap();
        let rebound = ask(&serving, "GET / HTTP/1.1\r\nhost: evil.example");
        assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    }
);

conformance!(
    fn a_body_without_end_is_not_read(db: &mut Db) {
        prepare(db);
        let serving = Server::bind(reader(db), local()).unwrap().start().unwrap();
        let head = "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n";
        let mut stream = TcpStream::connect(serving.address()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // It may be closed meanwhile.
        let _ = stream.write_all(&[b'a'; 20_000]);
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
);
