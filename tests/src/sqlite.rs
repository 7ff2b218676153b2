//! SQLite for tests: a file for each test.

use std::fmt;
use std::sync::Once;
use std::time::{SystemTime, UNIX_EPOCH};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use tempfile::TempDir;

use crate::answer::{Integer, OptionalText};
use crate::{TestDb, report};

/// An empty database file in a directory of its own, removed with this.
pub struct Database {
    directory: TempDir,
    session: SqliteConnection,
}

/// Makes an empty database.
pub fn database() -> Database {
    let directory = tempfile::Builder::new()
        .prefix("leasehold-")
        .tempdir()
        .expect("a temporary directory can be made");
    let mut session = connect(&url(&directory));
    static REPORT: Once = Once::new();
    REPORT.call_once(|| report::line(&describe(&mut session)));
    Database { directory, session }
}

fn url(directory: &TempDir) -> String {
    let path = directory.path().join("test.db");
    path.into_os_string()
        .into_string()
        .expect("the temporary directory's path is UTF-8")
}

fn connect(url: &str) -> SqliteConnection {
    let mut connection = SqliteConnection::establish(url).expect("the test's database can be opened");
    // A test's statement waits for the queue's write; it does not fail beside it.
    connection
        .batch_execute("PRAGMA busy_timeout = 10000")
        .expect("SQLite knows the setting");
    connection
}

fn describe(session: &mut SqliteConnection) -> String {
    let answer: OptionalText = diesel::sql_query("SELECT sqlite_version() AS value")
        .get_result(session)
        .expect("SQLite tells its version");
    format!(
        "tests on SQLite {}, isolation serializable; autocommit outside of transactions; a file for each test, connections in the order in which the \
         test opens them; times are no measurement",
        answer.value.unwrap_or_default()
    )
}

/// The SQLite form of a text with PostgreSQL's table names.
fn render(text: &str) -> String {
    text.replace("leasehold.", "leasehold_")
}

impl TestDb for Database {
    type Connection = SqliteConnection;

    const BACKEND: &'static str = "sqlite";

    fn new() -> Self {
        database()
    }

    fn url(&self) -> String {
        url(&self.directory)
    }

    fn connect(&self) -> SqliteConnection {
        connect(&self.url())
    }

    #[track_caller]
    fn sql(&mut self, statements: &str) {
        self.session
            .batch_execute(&render(statements))
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    #[track_caller]
    fn integer(&mut self, query: &str) -> i64 {
        let text = format!("WITH answer (value) AS ({query}) SELECT CAST(value AS INTEGER) AS value FROM answer");
        let answer: Integer = diesel::sql_query(render(&text))
            .get_result(&mut self.session)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        answer.value
    }

    #[track_caller]
    fn texts(&mut self, query: &str) -> Vec<Option<String>> {
        let text = format!("WITH answer (value) AS ({query}) SELECT CAST(value AS TEXT) AS value FROM answer");
        let answers: Vec<OptionalText> = diesel::sql_query(render(&text))
            .load(&mut self.session)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        answers.into_iter().map(|answer| answer.value).collect()
    }

    #[track_caller]
    fn set_time(&mut self, table: &str, column: &str, milliseconds: i64, filter: &str) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("the clock is past 1970")
            .as_millis();
        let text = format!("UPDATE {table} SET {column} = {now} + {milliseconds} WHERE {filter}");
        let changed = diesel::sql_query(render(&text))
            .execute(&mut self.session)
            .unwrap_or_else(|error| panic!("{table}.{column}: {error}"));
        assert!(changed > 0, "no row of {table} meets {filter}");
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}
