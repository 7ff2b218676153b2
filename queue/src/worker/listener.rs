//! Hearing of enqueues and cancels on PostgreSQL, on libpq's own functions.
//!
//! Diesel's iterator over notifications never blocks and shows no socket, so it could only be asked again and again;
//! once a millisecond costs some percent of a core. Here the thread sleeps in `poll` until the server says something or
//! the worker stops. Losing a notification costs time, never a job: the claimer looks by itself, too.

#![expect(
    unsafe_code,
    reason = "only libpq's own functions give the socket to wait on; nothing else here is unsafe"
)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::io::PipeReader;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::control::spread;
use crate::backend::Wakes;
use crate::schema::Schema;

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Tells whenever something was enqueued, cancelled or emitted in `schema`, until the other end of `stop` is closed.
///
/// `conninfo` is a URL or `key=value` pairs, with time limits on silence; it is never logged.
pub fn listen(conninfo: &str, schema: &Schema, wakes: &Wakes, stop: &PipeReader) {
    let schema = schema.name();
    let mut wait = FIRST_WAIT;
    let mut away_since = None;
    loop {
        let begun = Instant::now();
        let heard = Listener::connect(conninfo, schema).and_then(|mut listener| {
            match away_since.take() {
                None => log::debug!("listen: listening schema={schema}"),
                Some(since) => {
                    log::info!(
                        "listen: the database is back after {:?} schema={schema}",
                        Instant::elapsed(&since)
                    );
                }
            }
            // Something may have come while nobody listened.
            let mut heard = Heard {
                enqueued: true,
                cancelled: true,
                emitted: true,
            };
            loop {
                if heard.enqueued {
                    let _ = wakes.enqueued.try_send(());
                }
                if heard.cancelled {
                    let _ = wakes.cancelled.try_send(());
                }
                if heard.emitted {
                    crate::wake::wake_relays();
                }
                match listener.wait(stop)? {
                    Some(more) => heard = more,
                    None => return Ok(()),
                }
            }
        });
        let Err(error) = heard else { return };
        if away_since.is_none() {
            log::warn!("listen: the database is away ({error}); trying again schema={schema}");
            away_since = Some(Instant::now());
        }
        // A server that accepts and hangs up at once is away as well.
        if begun.elapsed() > LONGEST_WAIT {
            wait = FIRST_WAIT;
        }
        if is_stopped_within(stop, spread(wait)) {
            return;
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Whether the worker stops within `time`, which is waited for otherwise.
fn is_stopped_within(stop: &PipeReader, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Out of range it cannot be: it is seconds.
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            ready => return ready != Ok(0),
        }
    }
}

/// What notifications said.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    enqueued: bool,
    cancelled: bool,
    emitted: bool,
}

/// Why nothing can be heard.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    /// Without the text: libpq's message repeats it, password included.
    #[error("the connection string cannot be read")]
    Conninfo,
    #[error("out of memory")]
    Memory,
    #[error("{0}")]
    Server(String),
    #[error("cannot wait for the server: {0}")]
    Poll(#[from] Errno),
}

/// A connection that listens on three channels.
struct Listener {
    conn: NonNull<pq_sys::PGconn>,
    enqueued: String,
    cancelled: String,
    emitted: String,
}

impl Listener {
    /// Connects, and listens on the channels that are called after the schema.
    fn connect(conninfo: &str, schema: &str) -> Result<Self, ListenError> {
        let text = CString::new(conninfo).map_err(|_| ListenError::Conninfo)?;
        if !is_readable(&text) {
            return Err(ListenError::Conninfo);
        }
        // SAFETY: the text ends with a NUL and outlives the call. A connection is returned, whatever its status, or null.
        let conn = unsafe { pq_sys::PQconnectdb(text.as_ptr()) };
        let mut listener = Self {
            conn: NonNull::new(conn).ok_or(ListenError::Memory)?,
            enqueued: schema.to_owned(),
            cancelled: format!("{schema}_cancel"),
            emitted: format!("{schema}_outbox"),
        };
        // SAFETY: `conn` is an open connection of ours. The function is called with whatever pointer is given: null.
        unsafe { pq_sys::PQsetNoticeProcessor(listener.conn.as_ptr(), Some(ignore), ptr::null_mut()) };
        // SAFETY: as above; the status is read only.
        if unsafe { pq_sys::PQstatus(listener.conn.as_ptr()) } != pq_sys::ConnStatusType::CONNECTION_OK {
            return Err(listener.error());
        }
        // Quoted, because a schema may have the name of a keyword. It has no quotes in it, see `Schema::named`.
        listener.execute(&format!(
            "LISTEN \"{schema}\"; LISTEN \"{schema}_cancel\"; LISTEN \"{schema}_outbox\""
        ))?;
        Ok(listener)
    }

    /// Waits for the next notifications; `None` once the other end of `stop` is closed.
    fn wait(&mut self, stop: &PipeReader) -> Result<Option<Heard>, ListenError> {
        loop {
            // First, because the answer to LISTEN may have brought some along.
            let heard = self.take_notifications();
            if heard.enqueued || heard.cancelled || heard.emitted {
                return Ok(Some(heard));
            }
            // SAFETY: `conn` is an open connection of ours. Asked each time; it is -1 once the connection is closed.
            let socket = unsafe { pq_sys::PQsocket(self.conn.as_ptr()) };
            if socket < 0 {
                return Err(self.error());
            }
            // SAFETY: the socket is open for as long as the connection, which nothing closes in this iteration before
            // its last use.
            let socket = unsafe { BorrowedFd::borrow_raw(socket) };
            let mut ready = [
                PollFd::new(stop, PollFlags::IN),
                PollFd::from_borrowed_fd(socket, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            if !ready[0].revents().is_empty() {
                return Ok(None);
            }
            // SAFETY: as above. It takes what has arrived and never waits; zero says that the connection is lost.
            if unsafe { pq_sys::PQconsumeInput(self.conn.as_ptr()) } == 0 {
                return Err(self.error());
            }
        }
    }

    /// Takes what has arrived, by channel. What a notification says is not looked at: anybody may send one.
    fn take_notifications(&mut self) -> Heard {
        let mut heard = Heard::default();
        // SAFETY: `conn` is an open connection of ours. A notification is returned for us to free, or null.
        while let Some(notification) = NonNull::new(unsafe { pq_sys::PQnotifies(self.conn.as_ptr()) }) {
            // SAFETY: the notification is ours until it is freed, and its channel is a text that ends with a NUL.
            let channel = unsafe { CStr::from_ptr(notification.as_ref().relname) };
            heard.enqueued |= channel.to_bytes() == self.enqueued.as_bytes();
            heard.cancelled |= channel.to_bytes() == self.cancelled.as_bytes();
            heard.emitted |= channel.to_bytes() == self.emitted.as_bytes();
            // SAFETY: it came from libpq, is freed once, and is not used afterwards; its texts belong to it.
            unsafe { pq_sys::PQfreemem(notification.as_ptr().cast()) };
        }
        heard
    }

    fn execute(&mut self, statement: &str) -> Result<(), ListenError> {
        let text = CString::new(statement).map_err(|_| ListenError::Conninfo)?;
        // SAFETY: `conn` is an open connection of ours, and the text ends with a NUL and outlives the call.
        let result = unsafe { pq_sys::PQexec(self.conn.as_ptr(), text.as_ptr()) };
        // SAFETY: null is allowed, and answered as an error.
        let status = unsafe { pq_sys::PQresultStatus(result) };
        // SAFETY: the result is ours, freed once, and not used afterwards; null is allowed.
        unsafe { pq_sys::PQclear(result) };
        if status == pq_sys::ExecStatusType::PGRES_COMMAND_OK {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// The connection's last error, on one line.
    fn error(&self) -> ListenError {
        // SAFETY: `conn` is a connection of ours; the message ends with a NUL and is copied before the connection is used
        // again.
        let message = unsafe { CStr::from_ptr(pq_sys::PQerrorMessage(self.conn.as_ptr())) };
        let message = message.to_string_lossy();
        ListenError::Server(message.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: `conn` is a connection of ours, closed here only, and not used afterwards.
        unsafe { pq_sys::PQfinish(self.conn.as_ptr()) };
    }
}

/// Whether libpq can read the connection string.
fn is_readable(conninfo: &CStr) -> bool {
    // SAFETY: the text ends with a NUL and outlives the call; no message is asked for.
    let options = unsafe { pq_sys::PQconninfoParse(conninfo.as_ptr(), ptr::null_mut()) };
    // SAFETY: the options came from libpq, are freed once, and are not used afterwards; null is allowed.
    unsafe { pq_sys::PQconninfoFree(options) };
    !options.is_null()
}

/// libpq prints notices on standard error unless told otherwise.
extern "C" fn ignore(_: *mut c_void, _: *const c_char) {}
