//! A small client on libpq's own functions: what a program would do without any framework.

#![expect(unsafe_code, reason = "the reference is libpq itself; nothing else here is unsafe")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A connection.
#[derive(Debug)]
pub struct Libpq(*mut pq_sys::PGconn);

// SAFETY: a connection may be used by any one thread at a time, and is not shared.
unsafe impl Send for Libpq {}

/// The rows of an answer, as texts.
pub type Rows = Vec<Vec<String>>;

impl Libpq {
    /// Connects.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn connect(url: &str) -> Answer<Self> {
        let url = CString::new(url)?;
        // SAFETY: the text outlives the call.
        let conn = Self(unsafe { pq_sys::PQconnectdb(url.as_ptr()) });
        // SAFETY: the connection is ours; null is allowed.
        if unsafe { pq_sys::PQstatus(conn.0) } != pq_sys::ConnStatusType::CONNECTION_OK {
            return Err(conn.error());
        }
        // SAFETY: the connection is ours.
        unsafe { pq_sys::PQsetNoticeProcessor(conn.0, Some(ignore), ptr::null_mut()) };
        Ok(conn)
    }

    /// Runs statements without values.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn execute(&mut self, text: &str) -> Answer<Rows> {
        let text = CString::new(text)?;
        // SAFETY: the connection is ours, and the text outlives the call.
        let result = unsafe { pq_sys::PQexec(self.0, text.as_ptr()) };
        self.rows(result)
    }

    /// Runs a prepared statement with values as texts.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn run(&mut self, name: &str, values: &[&str]) -> Answer<Rows> {
        let name = CString::new(name)?;
        let texts = values
            .iter()
            .map(|value| CString::new(*value))
            .collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: the connection is ours; as many texts as are said outlive the call. Lengths and formats are not read
        // for texts.
        let result = unsafe {
            pq_sys::PQexecPrepared(
                self.0,
                name.as_ptr(),
                c_int::try_from(values.len())?,
                pointers.as_ptr(),
                ptr::null(),
                ptr::null(),
                0,
            )
        };
        self.rows(result)
    }

    /// Waits for a notification with poll(2) on the socket; whether one has come within `timeout`.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn wait(&mut self, timeout: Duration) -> Answer<bool> {
        if self.take_notifications() {
            return Ok(true);
        }
        // SAFETY: the connection is ours, and keeps its socket while it is borrowed here.
        let socket = unsafe { BorrowedFd::borrow_raw(pq_sys::PQsocket(self.0)) };
        let timeout = Timespec::try_from(timeout)?;
        match poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            other => drop(other?),
        }
        // SAFETY: the connection is ours.
        if unsafe { pq_sys::PQconsumeInput(self.0) } == 0 {
            return Err(self.error());
        }
        Ok(self.take_notifications())
    }

    fn take_notifications(&mut self) -> bool {
        let mut any = false;
        loop {
            // SAFETY: the connection is ours; what is returned is freed once, and not used afterwards.
            let notification = unsafe { pq_sys::PQnotifies(self.0) };
            if notification.is_null() {
                return any;
            }
            any = true;
            // SAFETY: as above.
            unsafe { pq_sys::PQfreemem(notification.cast()) };
        }
    }

    fn rows(&self, result: *mut pq_sys::PGresult) -> Answer<Rows> {
        use pq_sys::ExecStatusType::{PGRES_COMMAND_OK, PGRES_TUPLES_OK};
        // SAFETY: the result is ours until it is cleared; null is answered as an error.
        let status = unsafe { pq_sys::PQresultStatus(result) };
        // SAFETY: as above.
        let (rows, columns) = unsafe { (pq_sys::PQntuples(result), pq_sys::PQnfields(result)) };
        let text = |row, column| {
            // SAFETY: row and column are within the result, whose texts end with a NUL.
            unsafe { CStr::from_ptr(pq_sys::PQgetvalue(result, row, column)) }
                .to_string_lossy()
                .into_owned()
        };
        let rows = (0..rows)
            .map(|row| (0..columns).map(|column| text(row, column)).collect())
            .collect();
        // SAFETY: the result is cleared once, and not used afterwards.
        unsafe { pq_sys::PQclear(result) };
        if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK {
            Ok(rows)
        } else {
            Err(self.error())
        }
    }

    fn error(&self) -> Box<dyn std::error::Error + Send + Sync> {
        // SAFETY: the message ends with a NUL, and is copied at once.
        let message = unsafe { CStr::from_ptr(pq_sys::PQerrorMessage(self.0)) };
        message.to_string_lossy().trim().to_owned().into()
    }
}

impl Drop for Libpq {
    fn drop(&mut self) {
        // SAFETY: the connection is ours, closed here only, and not used afterwards.
        unsafe { pq_sys::PQfinish(self.0) };
    }
}

/// libpq prints notices on standard error unless told otherwise.
extern "C" fn ignore(_: *mut c_void, _: *const c_char) {}
