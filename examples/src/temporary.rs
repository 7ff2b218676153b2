use std::error::Error;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use tempfile::TempDir;

/// A new SQLite file with the queue's tables: the folder that it is in, its URL and a connection to it.
///
/// The folder goes when the first of the three is dropped.
///
/// # Errors
///
/// When the file or the tables cannot be made.
pub fn temporary_database() -> Result<(TempDir, String, SqliteConnection), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = folder.path().join("queue.db").display().to_string();
    let mut conn = SqliteConnection::establish(&url)?;
    // The program's own statements wait for the worker's writes, instead of failing beside them.
    conn.batch_execute("PRAGMA busy_timeout = 10000")?;
    leasehold::migrate(&mut conn)?;
    Ok((folder, url, conn))
}
