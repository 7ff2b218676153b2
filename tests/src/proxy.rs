//! Stands between a program and PostgreSQL, and loses what it is told to: a request, its answer, or the whole line.
//!
//! It reads the frames of the protocol (version 3, without TLS), so that a fault strikes one statement, known by a piece of
//! its text, whether it is sent as a text or as a prepared statement.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use tempfile::TempDir;

use crate::jobs::SOON;

/// What happens to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is run, its answer is lost, and the connection ends on both sides.
    LoseAnswer,
    /// It never arrives, and the connection ends on both sides.
    LoseRequest,
    /// It never arrives, and the client's connection ends; the server's stays as it is until [`Proxy::heal`].
    HalfOpen,
    /// It arrives so much later.
    Stall(Duration),
}

/// A proxy in front of one server.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    directory: TempDir,
    url: String,
    hits: Receiver<String>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    rules: Mutex<Rules>,
    hit: Sender<String>,
}

#[derive(Debug, Default)]
struct Rules {
    /// Each strikes once, the first one first.
    once: Vec<Rule>,
    /// Strike each time.
    always: Vec<Rule>,
    seen: HashMap<String, usize>,
    /// What is replaced in each statement, and by what.
    rewritten: Vec<Rewrite>,
    /// The server's sides of half-open connections.
    half_open: Vec<Stream>,
}

#[derive(Debug)]
struct Rule {
    /// What the transaction's earlier statements must have had in them.
    before: String,
    text: String,
    fault: Fault,
}

#[derive(Debug)]
struct Rewrite {
    from: String,
    to: String,
    times: usize,
}

impl Rule {
    fn new(before: &str, text: &str, fault: Fault) -> Self {
        let (before, text) = (before.to_owned(), text.to_owned());
        Self { before, text, fault }
    }

    fn strikes(&self, statement: &str, before: &str) -> bool {
        statement.contains(&self.text) && before.contains(&self.before)
    }
}

#[derive(Debug)]
enum Server {
    Socket(String),
    Address(String),
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Proxy {
    /// Starts a proxy in front of the server of `url`.
    pub fn start(url: &str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("leasehold-")
            .tempdir_in("/tmp")
            .expect("a directory can be made in /tmp");
        let (server, url) = behind(url, &directory.path().display().to_string());
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).expect("a socket");
        let (hit, hits) = unbounded();
        let shared = Arc::new(Shared {
            server: Mutex::new(server),
            rules: Mutex::default(),
            hit,
        });
        thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let _ = serve(client, &shared);
                    });
                }
            }
        });
        Self {
            shared,
            directory,
            url,
            hits,
        }
    }

    /// The URL of the same database through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Takes connections to the server of `url` from now on, as a name does that follows a failover; those that are open go
    /// with their server.
    pub fn redirect(&self, url: &str) {
        let (server, _) = behind(url, "");
        *self.shared.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// Makes the fault strike the next statement with this text, once all faults that were asked for before have struck.
    pub fn once(&self, text: &str, fault: Fault) {
        self.once_after("", text, fault);
    }

    /// As [`Proxy::once`], for a statement whose transaction has had a statement with the text `before`.
    pub fn once_after(&self, before: &str, text: &str, fault: Fault) {
        self.shared.rules().once.push(Rule::new(before, text, fault));
    }

    /// Makes the fault strike each statement with this text, until [`Proxy::heal`].
    pub fn always(&self, text: &str, fault: Fault) {
        self.shared.rules().always.push(Rule::new("", text, fault));
    }

    /// Waits until a fault strikes.
    #[track_caller]
    pub fn strikes(&self) {
        self.hits.recv_timeout(SOON).expect("the fault strikes");
    }

    /// Replaces `from` by `to` in each statement from now on: a server that runs another statement than the library wrote.
    /// Connections keep what they have prepared before.
    pub fn rewrite(&self, from: &str, to: &str) {
        let (from, to, times) = (from.to_owned(), to.to_owned(), 0);
        self.shared.rules().rewritten.push(Rewrite { from, to, times });
    }

    /// How many statements had `from` in them, and were rewritten.
    pub fn rewrote(&self, from: &str) -> usize {
        let rules = self.shared.rules();
        let rewrite = rules.rewritten.iter().find(|rewrite| rewrite.from == from);
        rewrite.map_or(0, |rewrite| rewrite.times)
    }

    /// How many statements with this text have been sent, from the first call for this text on.
    pub fn count(&self, text: &str) -> usize {
        *self.shared.rules().seen.entry(text.to_owned()).or_default()
    }

    /// No fault strikes any more, and half-open connections end.
    pub fn heal(&self) {
        let mut rules = self.shared.rules();
        rules.always.clear();
        for server in rules.half_open.drain(..) {
            server.close();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.heal();
        // Nobody gets through any more; the listening thread goes with the program.
        let _ = std::fs::remove_file(self.directory.path().join(".s.PGSQL.5432"));
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frame with its statement rewritten, if it has one.
    fn rewritten(&self, kind: u8, frame: Vec<u8>) -> Vec<u8> {
        let mut rules = self.rules();
        let begin = match kind {
            b'Q' => Some(0),
            b'P' => text(&frame, 0).map(|(_, after)| after),
            _ => None,
        };
        let Some((begin, (statement, end))) = begin.and_then(|begin| Some((begin, text(&frame, begin)?))) else {
            return frame;
        };
        let statement = rules.rewritten.iter_mut().fold(statement, |statement, rewrite| {
            rewrite.times += usize::from(statement.contains(&rewrite.from));
            statement.replace(&rewrite.from, &rewrite.to)
        });
        [&frame[..begin], statement.as_bytes(), &[0], &frame[end..]].concat()
    }

    fn fault(&self, statement: &str, before: &str) -> Option<Fault> {
        let mut rules = self.rules();
        for (text, count) in &mut rules.seen {
            *count += usize::from(statement.contains(text.as_str()));
        }
        if rules.once.first().is_some_and(|rule| rule.strikes(statement, before)) {
            return Some(rules.once.remove(0).fault);
        }
        let always = rules.always.iter().find(|rule| rule.strikes(statement, before));
        always.map(|rule| rule.fault)
    }
}

/// One connection, until either side or a fault ends it.
fn serve(mut client: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut server = shared.server.lock().unwrap_or_else(PoisonError::into_inner).connect()?;
    let startup = first_frame(&mut client)?;
    server.write_all(&startup)?;
    let answer_is_lost = Arc::new(Mutex::new(false));
    let back = thread::spawn({
        let (mut client, mut server, lost) = (client.try_clone()?, server.try_clone()?, Arc::clone(&answer_is_lost));
        move || {
            let _ = answers(&mut server, &mut client, &lost);
            client.shutdown(std::net::Shutdown::Both).ok();
            server
        }
    });
    let fault = requests(&mut client, &mut server, shared, &answer_is_lost);
    match fault {
        Ok(Some(Fault::HalfOpen)) => {
            shared.rules().half_open.push(server);
            client.shutdown(std::net::Shutdown::Both)?;
        }
        // The server closes after its answer, which is lost.
        Ok(Some(Fault::LoseAnswer)) => back.join().map_or((), |server| server.close()),
        _ => {
            server.close();
            client.shutdown(std::net::Shutdown::Both)?;
        }
    }
    Ok(())
}

/// Passes requests on until a fault strikes one.
fn requests(
    client: &mut UnixStream,
    server: &mut Stream,
    shared: &Shared,
    answer_is_lost: &Mutex<bool>,
) -> io::Result<Option<Fault>> {
    let mut prepared: HashMap<String, String> = HashMap::new();
    let (mut losing, mut before) = (false, String::new());
    loop {
        let (kind, frame) = frame(client)?;
        let frame = shared.rewritten(kind, frame);
        let statement = match kind {
            b'Q' => text(&frame, 0).map(|(query, _)| query),
            b'P' => {
                if let Some((name, after)) = text(&frame, 0)
                    && let Some((query, _)) = text(&frame, after)
                {
                    prepared.insert(name, query);
                }
                None
            }
            b'B' => text(&frame, 0)
                .and_then(|(_, after)| text(&frame, after))
                .and_then(|(name, _)| prepared.get(&name).cloned()),
            _ => None,
        };
        let fault = statement.as_deref().and_then(|statement| {
            let fault = shared.fault(statement, &before);
            match statement {
                "COMMIT" | "ROLLBACK" => before.clear(),
                _ if statement.starts_with("BEGIN") => before = statement.to_owned(),
                _ if before.is_empty() => {}
                _ => before.push_str(statement),
            }
            fault
        });
        if let Some(fault) = fault {
            // What was told must hold when the test hears of the strike.
            match fault {
                Fault::LoseAnswer => {
                    *answer_is_lost.lock().unwrap_or_else(PoisonError::into_inner) = true;
                    losing = true;
                }
                Fault::Stall(time) => {
                    let _ = shared.hit.send(statement.unwrap_or_default());
                    thread::sleep(time);
                }
                Fault::LoseRequest | Fault::HalfOpen => {
                    let _ = shared.hit.send(statement.unwrap_or_default());
                    return Ok(Some(fault));
                }
            }
        }
        server.write_frame(kind, &frame)?;
        // A text is a whole request; a prepared statement ends with the Sync.
        if losing && (kind == b'Q' || kind == b'S') {
            let _ = shared.hit.send(String::new());
            return Ok(Some(Fault::LoseAnswer));
        }
    }
}

/// Passes answers on; one that is to be lost is awaited first, so that its statement has been run.
fn answers(server: &mut Stream, client: &mut UnixStream, lost: &Mutex<bool>) -> io::Result<()> {
    loop {
        let (kind, frame) = frame(server)?;
        let lost = *lost.lock().unwrap_or_else(PoisonError::into_inner);
        match (lost, kind) {
            (true, b'Z') => return Ok(()),
            (true, _) => {}
            (false, _) => write_frame(client, kind, &frame)?,
        }
    }
}

/// The first frame has no kind; its length counts itself.
fn first_frame(client: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut frame = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
    client.read_exact(&mut frame)?;
    Ok([length.as_slice(), &frame].concat())
}

fn frame(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut frame = vec![0; length.saturating_sub(4)];
    from.read_exact(&mut frame)?;
    Ok((head[0], frame))
}

fn write_frame(to: &mut impl Write, kind: u8, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len() + 4).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(frame.len() + 5);
    bytes.push(kind);
    bytes.extend(length.to_be_bytes());
    bytes.extend(frame);
    to.write_all(&bytes)
}

/// The text that begins at `from`, and where the next one begins.
fn text(frame: &[u8], from: usize) -> Option<(String, usize)> {
    let end = frame.get(from..)?.iter().position(|byte| *byte == 0)? + from;
    Some((String::from_utf8_lossy(&frame[from..end]).into_owned(), end + 1))
}

/// The server of a URL, and the URL of the same database on the proxy's socket.
fn behind(url: &str, directory: &str) -> (Server, String) {
    let (_, rest) = url.split_once("://").expect("the tests' server is given as a URL");
    let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = address.split_once('/').unwrap_or((address, ""));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut given: Vec<&str> = parameters.split('&').filter(|pair| !pair.is_empty()).collect();
    let value = |name: &str| given.iter().find_map(|pair| pair.strip_prefix(name));
    let port = value("port=").map(str::to_owned);
    let server = match value("host=") {
        Some(socket) if socket.starts_with('/') => Server::Socket(format!(
            "{socket}/.s.PGSQL.{}",
            port.unwrap_or_else(|| "5432".to_owned())
        )),
        other => {
            let host = other.unwrap_or(host);
            let port = port.unwrap_or_else(|| "5432".to_owned());
            let named = if host.contains(':') {
                host.to_owned()
            } else {
                format!("{host}:{port}")
            };
            Server::Address(named)
        }
    };
    let proxied = format!("host={directory}");
    given.retain(|pair| !pair.starts_with("host=") && !pair.starts_with("port="));
    given.push(&proxied);
    let user = if user.is_empty() {
        String::new()
    } else {
        format!("{user}@")
    };
    (server, format!("postgres://{user}/{database}?{}", given.join("&")))
}

impl Server {
    fn connect(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Socket(path) => Stream::Unix(UnixStream::connect(path)?),
            Self::Address(address) => Stream::Tcp(TcpStream::connect(address)?),
        })
    }
}

impl Stream {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    fn write_frame(&mut self, kind: u8, frame: &[u8]) -> io::Result<()> {
        write_frame(self, kind, frame)
    }

    fn close(&self) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Server, behind};

    #[test]
    fn the_proxy_takes_the_place_of_the_host() {
        let (server, url) = behind("postgres://postgres@/db?host=/tmp/a", "/tmp/b");
        assert!(matches!(server, Server::Socket(path) if path == "/tmp/a/.s.PGSQL.5432"));
        assert_eq!(url, "postgres://postgres@/db?host=/tmp/b");
        let (server, url) = behind("postgres://u:p@h:5433/db?a=b", "/tmp/b");
        assert!(matches!(server, Server::Address(address) if address == "h:5433"));
        assert_eq!(url, "postgres://u:p@/db?a=b&host=/tmp/b");
    }
}
