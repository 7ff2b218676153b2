//! The web page, as the program serves it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use leasehold_tests::jobs::prepare;
use leasehold_tests::{TestDb, conformance};
use serde_json::Value;

use super::{leasehold, mail};
use leasehold::Job as _;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

struct Page {
    program: Child,
    said: Value,
}

impl Page {
    fn open<Db: TestDb>(db: &Db, arguments: &[&str]) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_leasehold"))
            .args(["--database", &db.url(), "--json", "serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut out = BufReader::new(program.stdout.take().expect("it is piped"));
        let mut said = String::new();
        while !said.ends_with("}\n") && out.read_line(&mut said).expect("it writes UTF-8") > 0 {}
        let said = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        Self { program, said }
    }

    /// The whole answer to one request, written by hand.
    fn get(&self, path: &str, header: &str) -> String {
        let url = self.said["url"].as_str().expect("a text");
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).expect("it listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\n{header}connection: close\r\n\r\n"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in UTF-8");
        answer
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

conformance! {
    fn the_web_page_is_served_to_this_machine_to_be_read(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("").enqueue(&mut conn).unwrap().id();
        let page = Page::open(db, &[]);
        assert_eq!(page.said["read_only"], true);
        let overview = page.get("/", "");
        assert!(overview.starts_with("HTTP/1.1 200 OK") && overview.contains("mail"), "{overview}");
        let job = format!("/jobs/{id}");
        assert!(!page.get(&job, "").contains("a secret address"));
        let open = Page::open(db, &["--payloads"]);
        assert!(open.get(&job, "").contains("a secret address"));
    }
}

conformance! {
    fn whoever_has_the_token_of_a_file_may_look_and_act(db: &mut Db) {
        prepare(db);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
        let page = Page::open(db, &["--token-file", file.to_str().unwrap()]);
        assert_eq!(page.said["read_only"], false);
        assert!(!page.get("/jobs", "").starts_with("HTTP/1.1 200"));
        let bearer = format!("authorization: Bearer {TOKEN}\r\n");
        assert!(page.get("/jobs", &bearer).starts_with("HTTP/1.1 200"));
    }
}

conformance! {
    fn a_page_that_others_reach_or_that_could_show_nothing_is_refused(db: &mut Db) {
        leasehold(db, &["serve"]).refused(4, "the tables of `leasehold`");
        prepare(db);
        leasehold(db, &["serve", "--listen", "0.0.0.0:0"]).refused(2, "--token-file");
        leasehold(db, &["serve", "--token-file", "/nowhere/token"]).refused(2, "cannot read the token");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "short").unwrap();
        leasehold(db, &["serve", "--token-file", file.to_str().unwrap()]).refused(2, "at least 16");
    }
}
