//! As much of libpq as the reference needs.

#![expect(unsafe_code, reason = "libpq's functions; nothing else here is unsafe")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use pq_sys::{ConnStatusType, ExecStatusType, Oid, PGconn, PGresult};

use crate::Answer;

const BINARY: c_int = 1;

/// A connection of one thread.
pub(super) struct Connection(NonNull<PGconn>);

// SAFETY: libpq lets any thread use a connection, one at a time, which `&mut` ensures.
unsafe impl Send for Connection {}

impl Connection {
    pub(super) fn open(conninfo: &str) -> Answer<Self> {
        let text = CString::new(conninfo)?;
        // SAFETY: the text ends with a NUL and outlives the call. A connection is returned, whatever its status, or null.
        let conn = NonNull::new(unsafe { pq_sys::PQconnectdb(text.as_ptr()) }).ok_or("out of memory")?;
        let conn = Self(conn);
        // SAFETY: the connection is open until `conn` is dropped.
        if unsafe { pq_sys::PQstatus(conn.0.as_ptr()) } != ConnStatusType::CONNECTION_OK {
            return Err(conn.error());
        }
        Ok(conn)
    }

    /// Runs one or more statements without parameters.
    pub(super) fn execute(&mut self, text: &str) -> Answer {
        let text = CString::new(text)?;
        // SAFETY: connection and text live for the call; the result is ours.
        let rows = unsafe { pq_sys::PQexec(self.0.as_ptr(), text.as_ptr()) };
        self.check(rows).map(drop)
    }

    /// Prepares a statement under a name, with the types of its parameters.
    pub(super) fn prepare(&mut self, name: &CStr, text: &str, types: &[Oid]) -> Answer {
        let text = CString::new(text)?;
        let (count, types) = (c_int::try_from(types.len())?, types.as_ptr());
        // SAFETY: all pointers live for the call, and there are `count` types.
        let rows = unsafe { pq_sys::PQprepare(self.0.as_ptr(), name.as_ptr(), text.as_ptr(), count, types) };
        self.check(rows).map(drop)
    }

    /// Runs a prepared statement with binary values, for a binary answer.
    pub(super) fn run(&mut self, name: &CStr, values: &[Vec<u8>]) -> Answer<Rows> {
        let values: Vec<Option<&[u8]>> = values.iter().map(|value| Some(&value[..])).collect();
        self.run_with(name, &values)
    }

    /// The same, with values that may be null.
    pub(super) fn run_with(&mut self, name: &CStr, values: &[Option<&[u8]>]) -> Answer<Rows> {
        let count = c_int::try_from(values.len())?;
        let pointer = |value: &Option<&[u8]>| value.map_or(ptr::null(), |value| value.as_ptr().cast());
        let pointers: Vec<*const c_char> = values.iter().map(pointer).collect();
        let lengths = values.iter().map(|value| c_int::try_from(value.map_or(0, <[u8]>::len)));
        let lengths: Vec<c_int> = lengths.collect::<Result<_, _>>()?;
        let formats = vec![BINARY; values.len()];
        // SAFETY: the three lists have `count` elements and live for the call, as do the values, whose lengths are given.
        let rows = unsafe {
            pq_sys::PQexecPrepared(
                self.0.as_ptr(),
                name.as_ptr(),
                count,
                pointers.as_ptr(),
                lengths.as_ptr(),
                formats.as_ptr(),
                BINARY,
            )
        };
        self.check(rows)
    }

    /// Waits in poll(2) until a notification has come, `timeout` at the most, and takes all that have.
    pub(super) fn wait(&mut self, timeout: Duration) -> Answer {
        if self.take_notifications() {
            return Ok(());
        }
        // SAFETY: the connection is open, and keeps its socket while it is borrowed here.
        let socket = unsafe { BorrowedFd::borrow_raw(pq_sys::PQsocket(self.0.as_ptr())) };
        let timeout = Timespec::try_from(timeout)?;
        match poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => drop(ready?),
        }
        // SAFETY: the connection is open. It takes what has arrived and never waits.
        if unsafe { pq_sys::PQconsumeInput(self.0.as_ptr()) } == 0 {
            return Err(self.error());
        }
        self.take_notifications();
        Ok(())
    }

    fn take_notifications(&mut self) -> bool {
        let mut any = false;
        // SAFETY: the connection is open. A notification is returned for us to free, or null.
        while let Some(notification) = NonNull::new(unsafe { pq_sys::PQnotifies(self.0.as_ptr()) }) {
            any = true;
            // SAFETY: it came from libpq, is freed once, and is not used afterwards.
            unsafe { pq_sys::PQfreemem(notification.as_ptr().cast()) };
        }
        any
    }

    fn check(&self, rows: *mut PGresult) -> Answer<Rows> {
        let rows = Rows(NonNull::new(rows).ok_or_else(|| self.error())?);
        // SAFETY: the result lives until `rows` is dropped.
        match unsafe { pq_sys::PQresultStatus(rows.0.as_ptr()) } {
            ExecStatusType::PGRES_COMMAND_OK | ExecStatusType::PGRES_TUPLES_OK => Ok(rows),
            _ => Err(self.error()),
        }
    }

    fn error(&self) -> Box<dyn std::error::Error + Send + Sync> {
        // SAFETY: the message belongs to the connection, ends with a NUL, and is copied before anything else happens.
        let message = unsafe { CStr::from_ptr(pq_sys::PQerrorMessage(self.0.as_ptr())) };
        message.to_string_lossy().trim().into()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nothing uses the connection after this.
        unsafe { pq_sys::PQfinish(self.0.as_ptr()) };
    }
}

/// An answer.
pub(super) struct Rows(NonNull<PGresult>);

impl Rows {
    pub(super) fn len(&self) -> usize {
        // SAFETY: the result lives until `self` is dropped.
        usize::try_from(unsafe { pq_sys::PQntuples(self.0.as_ptr()) }).unwrap_or_default()
    }

    /// The place of a column.
    pub(super) fn column(&self, name: &CStr) -> Answer<c_int> {
        // SAFETY: result and name live for the call.
        match unsafe { pq_sys::PQfnumber(self.0.as_ptr(), name.as_ptr()) } {
            -1 => Err(format!("the answer has no column {}", name.to_string_lossy()).into()),
            column => Ok(column),
        }
    }

    /// A value of so many bytes.
    pub(super) fn value<const BYTES: usize>(&self, row: usize, column: c_int) -> Answer<[u8; BYTES]> {
        let row = c_int::try_from(row)?;
        // SAFETY: out of range, libpq answers with null and no length.
        let (value, length) = unsafe {
            (
                pq_sys::PQgetvalue(self.0.as_ptr(), row, column),
                pq_sys::PQgetlength(self.0.as_ptr(), row, column),
            )
        };
        if value.is_null() || usize::try_from(length)? != BYTES {
            return Err(format!("a value of {length} bytes instead of {BYTES}").into());
        }
        // SAFETY: libpq has so many bytes there, until the result is cleared.
        let bytes = unsafe { slice::from_raw_parts(value.cast::<u8>(), BYTES) };
        Ok(bytes.try_into()?)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: nothing uses the result after this.
        unsafe { pq_sys::PQclear(self.0.as_ptr()) };
    }
}
