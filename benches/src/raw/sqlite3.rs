//! As much of SQLite's own interface as the reference needs.

#![expect(unsafe_code, reason = "SQLite's functions; nothing else here is unsafe")]

use std::ffi::{CStr, CString, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use libsqlite3_sys as ffi;

use crate::Answer;

/// As many as any statement has.
const PARAMETERS: usize = 16;

/// A value to bind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'v> {
    Integer(i64),
    Text(&'v str),
    Null,
}

/// A connection of one thread.
pub(super) struct Connection(NonNull<ffi::sqlite3>);

// SAFETY: the library is built for use by many threads, and `&mut` leaves one at a time.
unsafe impl Send for Connection {}

impl Connection {
    pub(super) fn open(path: &str, patience: Duration) -> Answer<Self> {
        let path = CString::new(path)?;
        let mut conn = ptr::null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_URI | ffi::SQLITE_OPEN_NOMUTEX;
        // SAFETY: the path ends with a NUL; a connection is written to `conn` also when it cannot be used.
        let code = unsafe { ffi::sqlite3_open_v2(path.as_ptr(), &raw mut conn, flags, ptr::null()) };
        let conn = Self(NonNull::new(conn).ok_or("out of memory")?);
        conn.check(code)?;
        let patience = c_int::try_from(patience.as_millis())?;
        // SAFETY: the connection is open until `conn` is dropped.
        conn.check(unsafe { ffi::sqlite3_busy_timeout(conn.0.as_ptr(), patience) })?;
        Ok(conn)
    }

    /// Runs one or more statements without parameters.
    pub(super) fn execute(&mut self, text: &str) -> Answer {
        let text = CString::new(text)?;
        // SAFETY: connection and text live for the call, and nothing is called back.
        let code = unsafe { ffi::sqlite3_exec(self.0.as_ptr(), text.as_ptr(), None, ptr::null_mut(), ptr::null_mut()) };
        self.check(code)
    }

    /// Prepares a statement, to be run on this connection.
    pub(super) fn prepare(&mut self, text: &str) -> Answer<Statement> {
        let length = c_int::try_from(text.len())?;
        let mut statement = ptr::null_mut();
        // SAFETY: the text has `length` bytes and lives for the call; the statement is ours, or null.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                self.0.as_ptr(),
                text.as_ptr().cast(),
                length,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &raw mut statement,
                ptr::null_mut(),
            )
        };
        self.check(code)?;
        let raw = NonNull::new(statement).ok_or("an empty statement")?;
        let mut statement = Statement {
            raw,
            parameters: Vec::new(),
        };
        // A parameter that the text names twice is one, and one that it does not name has the index zero.
        for number in 1..=PARAMETERS {
            let name = CString::new(format!("${number}"))?;
            // SAFETY: statement and name live for the call.
            let index = unsafe { ffi::sqlite3_bind_parameter_index(statement.raw.as_ptr(), name.as_ptr()) };
            statement.parameters.push(index);
        }
        Ok(statement)
    }

    /// Runs a statement with the values of `$1`, `$2` and so on, and keeps the first `columns` of each row, which are
    /// integers.
    pub(super) fn run(
        &mut self,
        statement: &mut Statement,
        values: &[Value<'_>],
        columns: usize,
    ) -> Answer<Vec<Vec<i64>>> {
        let raw = statement.raw.as_ptr();
        for (value, index) in values.iter().zip(&statement.parameters) {
            if *index > 0 {
                self.bind(raw, *index, *value)?;
            }
        }
        let mut rows = Vec::new();
        loop {
            // SAFETY: the statement is one of this connection's, and the values outlive the call of `run`.
            match unsafe { ffi::sqlite3_step(raw) } {
                ffi::SQLITE_ROW => {
                    let columns = 0..c_int::try_from(columns)?;
                    // SAFETY: there is a row, and out of range the answer is zero.
                    rows.push(
                        columns
                            .map(|column| unsafe { ffi::sqlite3_column_int64(raw, column) })
                            .collect(),
                    );
                }
                ffi::SQLITE_DONE => break,
                code => {
                    let error = self.check(code);
                    // SAFETY: as above.
                    unsafe { ffi::sqlite3_reset(raw) };
                    error?;
                }
            }
        }
        // SAFETY: as above.
        self.check(unsafe { ffi::sqlite3_reset(raw) })?;
        Ok(rows)
    }

    fn bind(&self, statement: *mut ffi::sqlite3_stmt, index: c_int, value: Value<'_>) -> Answer {
        // SAFETY: the statement is one of this connection's. Texts are given by their length and outlive the run, which is
        // why they are not copied; the next run binds them anew.
        let code = unsafe {
            match value {
                Value::Integer(value) => ffi::sqlite3_bind_int64(statement, index, value),
                Value::Text(text) => {
                    let length = c_int::try_from(text.len())?;
                    ffi::sqlite3_bind_text(statement, index, text.as_ptr().cast(), length, ffi::SQLITE_STATIC())
                }
                Value::Null => ffi::sqlite3_bind_null(statement, index),
            }
        };
        self.check(code)
    }

    fn check(&self, code: c_int) -> Answer {
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the message belongs to the connection, ends with a NUL, and is copied before anything else happens.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.0.as_ptr())) };
        Err(message.to_string_lossy().into())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: nothing uses the connection after this; its statements are gone, see `Sqlite`.
        unsafe { ffi::sqlite3_close(self.0.as_ptr()) };
    }
}

/// A prepared statement.
pub(super) struct Statement {
    raw: NonNull<ffi::sqlite3_stmt>,
    /// The indices of `$1`, `$2` and so on.
    parameters: Vec<c_int>,
}

// SAFETY: it is used with its connection alone, by the one thread that has both.
unsafe impl Send for Statement {}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: nothing uses the statement after this.
        unsafe { ffi::sqlite3_finalize(self.raw.as_ptr()) };
    }
}
