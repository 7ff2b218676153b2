//! Sessions that wait for each other, and what the server says of them.

use std::thread::JoinHandle;

use diesel::PgConnection;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use leasehold_tests::{TestDb, eventually, postgres};

use crate::jobs::SOON;

/// One session, driven by plain SQL.
pub(crate) struct Session {
    pub(crate) conn: PgConnection,
    pub(crate) pid: i64,
}

impl Session {
    pub(crate) fn new(mut conn: PgConnection) -> Self {
        let pid = integer(&mut conn, "SELECT pg_backend_pid()::bigint");
        Self { conn, pid }
    }

    pub(crate) fn of(db: &postgres::Database) -> Self {
        Self::new(db.connect())
    }

    /// Runs statements.
    #[track_caller]
    pub(crate) fn run(&mut self, statements: &str) {
        self.conn
            .batch_execute(statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    /// How many rows a statement gave or changed.
    #[track_caller]
    pub(crate) fn rows(&mut self, statement: &str) -> usize {
        diesel::sql_query(statement)
            .execute(&mut self.conn)
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    #[track_caller]
    pub(crate) fn integer(&mut self, query: &str) -> i64 {
        integer(&mut self.conn, query)
    }

    #[track_caller]
    pub(crate) fn integers(&mut self, query: &str) -> Vec<i64> {
        diesel::dsl::sql::<BigInt>(query)
            .load(&mut self.conn)
            .unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    #[track_caller]
    pub(crate) fn text(&mut self, query: &str) -> Option<String> {
        diesel::dsl::sql::<Nullable<Text>>(query)
            .get_result(&mut self.conn)
            .unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// The SQLSTATE that a statement ends with, which Diesel does not tell; `00000` is success. In a savepoint, so that an
    /// open transaction goes on.
    #[track_caller]
    pub(crate) fn sqlstate(&mut self, statement: &str) -> String {
        self.run(&format!(
            "DO $do$ BEGIN
                PERFORM set_config('test.sqlstate', '00000', false);
                EXECUTE $statement$ {statement} $statement$;
            EXCEPTION WHEN OTHERS THEN PERFORM set_config('test.sqlstate', SQLSTATE, false);
            END $do$"
        ));
        self.text("SELECT current_setting('test.sqlstate')").unwrap()
    }

    /// Does something on a thread of its own, and comes back when the server says that it waits for a lock.
    #[track_caller]
    pub(crate) fn waits<T: Send + 'static>(
        mut self,
        db: &mut postgres::Database,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Waiting<T> {
        let pid = self.pid;
        let thread = std::thread::spawn(move || {
            let answer = work(&mut self);
            (self, answer)
        });
        eventually(SOON, "the session waits for a lock", || {
            db.integer(&format!(
                "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'"
            )) == 1
        });
        Waiting { pid, thread }
    }
}

/// A session that waits for a lock.
pub(crate) struct Waiting<T> {
    pub(crate) pid: i64,
    thread: JoinHandle<(Session, T)>,
}

impl<T> Waiting<T> {
    /// What it waits for, in the server's words.
    pub(crate) fn event(&self, db: &mut postgres::Database) -> String {
        let pid = self.pid;
        db.text(&format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}"))
            .unwrap()
    }

    /// Its answer, after somebody made way.
    #[track_caller]
    pub(crate) fn answer(self) -> (Session, T) {
        self.thread.join().unwrap()
    }
}

#[track_caller]
fn integer(conn: &mut PgConnection, query: &str) -> i64 {
    diesel::dsl::sql::<BigInt>(query)
        .get_result(conn)
        .unwrap_or_else(|error| panic!("{query}: {error}"))
}
