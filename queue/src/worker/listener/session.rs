//! A connection that listens, on libpq's own functions.

#![expect(
    unsafe_code,
    reason = "only libpq's own functions give the socket to wait on; nothing else here is unsafe"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What notifications said: how many there were on each channel.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Heard {
    pub(super) enqueued: usize,
    pub(super) cancelled: usize,
    pub(super) emitted: usize,
}

/// Why nothing can be heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListenError {
    /// Without the text: libpq's message repeats it, password included.
    #[error("the connection string cannot be read")]
    Conninfo,
    #[error("out of memory")]
    Memory,
    #[error("{0}")]
    Server(String),
    #[error("cannot wait for the server: {0}")]
    Poll(#[from] Errno),
    /// No failure: the worker stops.
    #[error("stopped")]
    Stopped,
}

/// A connection that listens on three channels.
pub(super) struct Session<'s> {
    conn: NonNull<pq_sys::PGconn>,
    stop: &'s PipeReader,
    enqueued: String,
    cancelled: String,
    emitted: String,
}

impl<'s> Session<'s> {
    /// Connects, and listens on the channels that are called after the schema, until the other end of `stop` is closed.
    pub(super) fn connect(conninfo: &str, schema: &str, stop: &'s PipeReader) -> Result<Self, ListenError> {
        let text = CString::new(conninfo).map_err(|_| ListenError::Conninfo)?;
        if !is_readable(&text) {
            return Err(ListenError::Conninfo);
        }
        // SAFETY: the text ends with a NUL and outlives the call. A connection is returned, whatever its status, or null.
        let conn = unsafe { pq_sys::PQconnectdb(text.as_ptr()) };
        let mut session = Self {
            conn: NonNull::new(conn).ok_or(ListenError::Memory)?,
            stop,
            enqueued: schema.to_owned(),
            cancelled: format!("{schema}_cancel"),
            emitted: format!("{schema}_outbox"),
        };
        // SAFETY: `conn` is an open connection of ours. The function is called with whatever pointer is given: null.
        unsafe { pq_sys::PQsetNoticeProcessor(session.conn.as_ptr(), Some(ignore), ptr::null_mut()) };
        // SAFETY: as above; the status is read only.
        if unsafe { pq_sys::PQstatus(session.conn.as_ptr()) } != pq_sys::ConnStatusType::CONNECTION_OK {
            return Err(session.error());
        }
        // Quoted, because a schema may have the name of a keyword. It has no quotes in it, see `Schema::named`.
        session.ask(&format!(
            "LISTEN \"{schema}\"; LISTEN \"{schema}_cancel\"; LISTEN \"{schema}_outbox\""
        ))?;
        Ok(session)
    }

    /// Waits until the server says something or `poke` can be read, `time` at the most.
    pub(super) fn wait(&mut self, poke: &PipeReader, time: Option<Duration>) -> Result<(), ListenError> {
        if self.wait_for_either(Some(poke), time)? {
            // A few bytes at the most, one for each that pokes.
            let _ = (&*poke).read(&mut [0; 16]);
        }
        Ok(())
    }

    /// Takes what the server has said, or waits for it; whether `poke` can be read.
    fn wait_for_either(&mut self, poke: Option<&PipeReader>, time: Option<Duration>) -> Result<bool, ListenError> {
        // SAFETY: `conn` is an open connection of ours. Asked each time; it is -1 once the connection is closed.
        let socket = unsafe { pq_sys::PQsocket(self.conn.as_ptr()) };
        if socket < 0 {
            return Err(self.error());
        }
        // SAFETY: the socket is open for as long as the connection, which nothing closes before its last use here.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        // Without one to wait for, another that says the same.
        let poked = poke.map_or(self.stop.as_fd(), AsFd::as_fd);
        let mut ready = [
            PollFd::new(self.stop, PollFlags::IN),
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::from_borrowed_fd(poked, PollFlags::IN),
        ];
        let time = time.map(|time| Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 }));
        match poll(&mut ready, time.as_ref()) {
            Err(Errno::INTR) => return Ok(false),
            other => other?,
        };
        if !ready[0].revents().is_empty() {
            return Err(ListenError::Stopped);
        }
        let is_poked = !ready[2].revents().is_empty();
        // SAFETY: as above. It takes what has arrived and never waits; zero says that the connection is lost.
        if !ready[1].revents().is_empty() && unsafe { pq_sys::PQconsumeInput(self.conn.as_ptr()) } == 0 {
            return Err(self.error());
        }
        Ok(is_poked)
    }

    /// Takes what has arrived, by channel. What a notification says is not looked at: anybody may send one.
    pub(super) fn take_notifications(&mut self) -> Heard {
        let mut heard = Heard::default();
        // SAFETY: `conn` is an open connection of ours. A notification is returned for us to free, or null.
        while let Some(notification) = NonNull::new(unsafe { pq_sys::PQnotifies(self.conn.as_ptr()) }) {
            // SAFETY: the notification is ours until it is freed, and its channel is a text that ends with a NUL.
            let channel = unsafe { CStr::from_ptr(notification.as_ref().relname) };
            let is = |name: &str| usize::from(channel.to_bytes() == name.as_bytes());
            heard.enqueued += is(&self.enqueued);
            heard.cancelled += is(&self.cancelled);
            heard.emitted += is(&self.emitted);
            // SAFETY: it came from libpq, is freed once, and is not used afterwards; its texts belong to it.
            unsafe { pq_sys::PQfreemem(notification.as_ptr().cast()) };
        }
        heard
    }

    /// Runs statements that wait for no lock; the values of the last one's first row. Waits for the answer as for anything
    /// else, so that a server that is silent does not keep the worker from stopping.
    pub(super) fn ask(&mut self, statements: &str) -> Result<Vec<String>, ListenError> {
        let text = CString::new(statements).map_err(|_| ListenError::Conninfo)?;
        // SAFETY: `conn` is an open connection of ours without a statement under way, and the text ends with a NUL and
        // outlives the call.
        if unsafe { pq_sys::PQsendQuery(self.conn.as_ptr(), text.as_ptr()) } == 0 {
            return Err(self.error());
        }
        let mut values = Vec::new();
        loop {
            // SAFETY: as above; it only looks at what has arrived.
            while unsafe { pq_sys::PQisBusy(self.conn.as_ptr()) } != 0 {
                self.wait_for_either(None, None)?;
            }
            // SAFETY: as above. A result is ours to clear, or null after the last one.
            let result = unsafe { pq_sys::PQgetResult(self.conn.as_ptr()) };
            if result.is_null() {
                return Ok(values);
            }
            let row = first_row(result);
            // SAFETY: the result is ours, freed once, and not used afterwards.
            unsafe { pq_sys::PQclear(result) };
            values = row.ok_or_else(|| self.error())?;
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

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: `conn` is a connection of ours, closed here only, and not used afterwards.
        unsafe { pq_sys::PQfinish(self.conn.as_ptr()) };
    }
}

/// The values of a result's first row, as texts; `None` for one that is an error.
fn first_row(result: *const pq_sys::PGresult) -> Option<Vec<String>> {
    // SAFETY: the result is a live one; these only read it.
    let (status, rows, fields) = unsafe {
        (
            pq_sys::PQresultStatus(result),
            pq_sys::PQntuples(result),
            pq_sys::PQnfields(result),
        )
    };
    match status {
        pq_sys::ExecStatusType::PGRES_COMMAND_OK => Some(Vec::new()),
        pq_sys::ExecStatusType::PGRES_TUPLES_OK if rows > 0 => {
            let value = |field: c_int| {
                // SAFETY: row and field are there. The text ends with a NUL and lives as long as the result.
                unsafe { CStr::from_ptr(pq_sys::PQgetvalue(result, 0, field)) }
            };
            Some(
                (0..fields)
                    .map(|field| value(field).to_string_lossy().into_owned())
                    .collect(),
            )
        }
        _ => None,
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
