//! A small HTTP server that a test's relays deliver to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was sent to it.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Method and path: `POST /hooks`.
    pub line: String,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// What it answers.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// With this status and nothing else.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }
}

/// A server on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Receiver {
    address: std::net::SocketAddr,
    stopping: Arc<AtomicBool>,
}

impl Receiver {
    /// Starts it. `answer` is called on a thread for each connection.
    pub fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let stopping = Arc::new(AtomicBool::new(false));
        let (answer, stop) = (Arc::new(answer), Arc::clone(&stopping));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(stream, answer.as_ref()));
            }
        });
        Self { address, stopping }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers the requests of one connection. A client that is killed just ends it.
fn serve(stream: TcpStream, answer: &dyn Fn(&Request) -> Answer) {
    let Ok(mut out) = stream.try_clone() else { return };
    let mut input = BufReader::new(stream);
    while let Some(request) = read(&mut input) {
        let Answer { status, headers, body } = answer(&request);
        let mut text = format!("HTTP/1.1 {status} Answer\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(&body);
        if out.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// The next request; `None` when there is no whole one any more.
fn read(input: &mut impl BufRead) -> Option<Request> {
    let mut next = || {
        let mut line = String::new();
        let bytes = input.read_line(&mut line).ok()?;
        (bytes > 0 && line.ends_with("\r\n")).then(|| line.trim_end().to_owned())
    };
    let first = next()?;
    let mut headers = BTreeMap::new();
    loop {
        let line = next()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(Ok(0), |length| length.parse());
    let mut body = vec![0; length.ok()?];
    input.read_exact(&mut body).ok()?;
    let line = first.rsplit_once(' ').map_or("", |(line, _)| line);
    Some(Request {
        line: line.to_owned(),
        headers,
        body: String::from_utf8(body).ok()?,
    })
}
