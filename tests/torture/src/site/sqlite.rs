//! A file that all processes write.

use diesel::prelude::*;
use diesel::result::QueryResult;
use tempfile::TempDir;

use super::{Ask, Site};

/// A file in a directory of the run's own.
#[derive(Debug)]
pub(crate) struct Sqlite {
    directory: TempDir,
}

impl Sqlite {
    pub(crate) fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("leasehold-").tempdir();
        Self {
            directory: directory.expect("a temporary directory can be made"),
        }
    }
}

impl Site for Sqlite {
    type Connection = SqliteConnection;

    fn worker_url(&self, _: &str, _: bool) -> String {
        self.directory.path().join("torture.db").display().to_string()
    }

    fn connect(&self) -> ConnectionResult<SqliteConnection> {
        let mut conn = SqliteConnection::establish(&self.worker_url("", false))?;
        conn.run("PRAGMA busy_timeout = 20000")
            .map_err(|error| ConnectionError::BadConnection(error.to_string()))?;
        Ok(conn)
    }

    fn history() -> &'static str {
        "
        CREATE TABLE history (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, application TEXT NOT NULL DEFAULT '', job_id INTEGER NOT NULL, was TEXT,
            old_generation INTEGER, old_token TEXT, state TEXT NOT NULL, generation INTEGER NOT NULL, token TEXT,
            extended INTEGER NOT NULL DEFAULT 0
        );
        CREATE TRIGGER history_insert AFTER INSERT ON leasehold.jobs BEGIN
            INSERT INTO history (job_id, state, generation, token) VALUES (NEW.id, NEW.state, NEW.generation, NEW.lease_token);
        END;
        CREATE TRIGGER history_update AFTER UPDATE ON leasehold.jobs BEGIN
            INSERT INTO history (job_id, was, old_generation, old_token, state, generation, token, extended)
                VALUES (NEW.id, OLD.state, OLD.generation, OLD.lease_token, NEW.state, NEW.generation, NEW.lease_token,
                    OLD.lease_until IS NOT NEW.lease_until AND OLD.state = NEW.state);
        END;
        CREATE TRIGGER history_finish AFTER INSERT ON leasehold.finished_jobs BEGIN
            INSERT INTO history (job_id, was, state, generation, token)
                VALUES (NEW.id, 'unfinished', NEW.state, NEW.generation, NEW.lease_token);
        END;
        "
    }

    fn terminate(&self, _: &str) -> usize {
        0
    }

    fn lose(&self) -> bool {
        false
    }

    fn crash(&mut self) -> bool {
        false
    }

    fn kill_backend(&mut self) -> bool {
        false
    }

    fn jump(&mut self) -> bool {
        false
    }

    fn heal(&self) {}

    fn expired() -> &'static str {
        "SELECT id || ' at generation ' || generation FROM leasehold.jobs WHERE state = 'running' AND lease_until < unixepoch('subsec') * 1000"
    }

    /// The whole file is one lock here: it is held for a while.
    fn lock_two(conn: &mut SqliteConnection, _: i64, _: i64) -> QueryResult<()> {
        conn.run("BEGIN IMMEDIATE")?;
        std::thread::sleep(std::time::Duration::from_millis(fastrand::u64(20..200)));
        conn.run("COMMIT")
    }
}
