//! The server of its own.

use std::io::{ErrorKind, Read, Write};
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

conformance!(
    #[skip(postgres, "the socket is the same")]
    fn slow_clients_are_let_go_and_keep_nobody_waiting(db: &mut Db) {
        prepare(db);
        let serving = Server::bind(reader(db), local()).unwrap().start().unwrap();
        let begin = |head: &str| {
            let mut stream = TcpStream::connect(serving.address()).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            stream
        };
        let head = "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n";
        let bodies: Vec<TcpStream> = (0..20)
            .map(|_| begin(&format!("{head}content-length: 9\r\n\r\nto")))
            .collect();
        let heads: Vec<TcpStream> = (0..20).map(|_| begin("GET / HTTP/1.1\r\nhost: loc")).collect();
        let nothing: Vec<TcpStream> = (0..20).map(|_| begin("")).collect();
        let answer = ask(&serving, "GET /jobs HTTP/1.1\r\nhost: localhost");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        for mut stream in bodies {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 408");
        }
        for mut stream in heads.into_iter().chain(nothing) {
            let mut answer = Vec::new();
            // It is closed, with a word or without one.
            if let Err(error) = stream.read_to_end(&mut answer) {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            }
            assert!(
                !answer.starts_with(b"HTTP/1.1 200"),
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
);

conformance!(
    #[skip(postgres, "the socket is the same")]
    fn a_body_of_pieces_without_end_and_two_lengths_are_refused(db: &mut Db) {
        prepare(db);
        let serving = Server::bind(reader(db), local()).unwrap().start().unwrap();
        let head = "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n";
        let piece = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
        let smuggled = "0\r\n\r\nGET /jobs HTTP/1.1\r\nhost: localhost\r\n\r\n";
        for (fields, body, statuses) in [
            ("transfer-encoding: chunked\r\n", piece.repeat(12), &["413"][..]),
            (
                "content-length: 5\r\ncontent-length: 6\r\n",
                "a=1&b=2".to_owned(),
                &["400"],
            ),
            ("content-length: -1\r\n", String::new(), &["400"]),
            // What is behind the end of the body is not taken for another request by one of two readings.
            (
                "content-length: 4\r\ntransfer-encoding: chunked\r\n",
                smuggled.to_owned(),
                &["400", "401"],
            ),
        ] {
            let mut stream = TcpStream::connect(serving.address()).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            // It may be closed before it has all.
            let _ = stream.write_all(format!("{head}{fields}connection: close\r\n\r\n{body}").as_bytes());
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(
                answer.is_empty() || statuses.contains(&&answer[9..12]),
                "{fields}: {answer}"
            );
            assert_eq!(
                answer.matches("HTTP/1.1 ").count(),
                usize::from(!answer.is_empty()),
                "{answer}"
            );
        }
    }
);

conformance!(
    #[skip(postgres, "the socket is the same")]
    fn heads_that_are_none_or_too_large_are_refused(db: &mut Db) {
        prepare(db);
        let serving = Server::bind(reader(db), local()).unwrap().start().unwrap();
        let long = "a".repeat(1 << 20);
        for (request, statuses) in [
            (
                format!("GET /jobs?error={long} HTTP/1.1\r\nhost: localhost"),
                &["414", "431"][..],
            ),
            (format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {long}"), &["431"]),
            ("GET / HTTP/1.1".to_owned(), &["421", "400"]),
            (
                "GET http://evil.example/ HTTP/1.1\r\nhost: evil.example".to_owned(),
                &["421"],
            ),
            (
                "GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example".to_owned(),
                &["421", "400"],
            ),
            ("GET /jobs\0 HTTP/1.1\r\nhost: localhost".to_owned(), &["400"]),
            ("OPTIONS * HTTP/1.1\r\nhost: localhost".to_owned(), &["404", "405"]),
            (
                "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost".to_owned(),
                &["404", "405"],
            ),
            ("BREW / HTTP/1.1\r\nhost: localhost".to_owned(), &["405"]),
        ] {
            let mut stream = TcpStream::connect(serving.address()).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            // It may be closed before it has all.
            let _ = stream.write_all(format!("{request}\r\nconnection: close\r\n\r\n").as_bytes());
            let mut status = [0; 12];
            if stream.read_exact(&mut status).is_ok() {
                let status = String::from_utf8_lossy(&status[9..]).into_owned();
                assert!(statuses.contains(&status.as_str()), "{status}: {request:.60}");
            }
        }
    }
);

conformance!(
    #[skip(sqlite, "readers wait for nobody there")]
    fn a_database_without_an_answer_is_given_up_and_the_server_goes_on(db: &mut Db) {
        use diesel::connection::SimpleConnection;
        use diesel::r2d2::{ConnectionManager, Pool};

        prepare(db);
        // The program's own connections, which wait for as long as they are kept waiting.
        let pool = Pool::new(ConnectionManager::<Connection>::new(db.url())).unwrap();
        let serving = Server::bind(Site::builder().with_pool(pool).unwrap(), local());
        let serving = serving.unwrap().start().unwrap();
        let mut holder = db.connect();
        holder
            .batch_execute("BEGIN; LOCK TABLE leasehold.pauses IN ACCESS EXCLUSIVE MODE")
            .unwrap();
        // More than there are threads: the last ones wait for a thread, and are given up without having had one.
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..12)
                .map(|_| scope.spawn(|| ask(&serving, "GET /queues HTTP/1.1\r\nhost: localhost")))
                .collect();
            for answer in asked {
                let answer = answer.join().unwrap();
                assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
                assert!(answer.contains("does not answer in time"), "{answer}");
            }
        });
        holder.batch_execute("ROLLBACK").unwrap();
        eventually(SOON, "the threads are free again", || {
            ask(&serving, "GET /queues HTTP/1.1\r\nhost: localhost").starts_with("HTTP/1.1 200 OK")
        });
    }
);
