use std::fmt;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use super::server::server;
use crate::TestDb;
use crate::answer::{Integer, OptionalText};

/// An empty database on the tests' server, dropped with this.
pub struct Database {
    name: String,
    url: String,
    session: PgConnection,
}

/// Makes an empty database.
pub fn database() -> Database {
    let (name, url) = server().create_database();
    let session = PgConnection::establish(&url).expect("the new database can be connected to");
    Database { name, url, session }
}

impl Database {
    /// Ends every other session of this database, as an administrator or a failover does; how many there were.
    pub fn terminate_connections(&mut self) -> i64 {
        self.integer(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
    }
}

impl TestDb for Database {
    type Connection = PgConnection;

    const BACKEND: &'static str = "postgres";

    fn new() -> Self {
        database()
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn connect(&self) -> PgConnection {
        PgConnection::establish(&self.url).expect("the test's database can be connected to")
    }

    #[track_caller]
    fn sql(&mut self, statements: &str) {
        self.session
            .batch_execute(statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    #[track_caller]
    fn integer(&mut self, query: &str) -> i64 {
        let text = format!("WITH answer (value) AS ({query}) SELECT CAST(value AS bigint) AS value FROM answer");
        let answer: Integer = diesel::sql_query(text)
            .get_result(&mut self.session)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        answer.value
    }

    #[track_caller]
    fn texts(&mut self, query: &str) -> Vec<Option<String>> {
        let text = format!("WITH answer (value) AS ({query}) SELECT CAST(value AS text) AS value FROM answer");
        let answers: Vec<OptionalText> = diesel::sql_query(text)
            .load(&mut self.session)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        answers.into_iter().map(|answer| answer.value).collect()
    }

    #[track_caller]
    fn set_time(&mut self, table: &str, column: &str, milliseconds: i64, filter: &str) {
        let text = format!(
            "UPDATE {table} SET {column} = clock_timestamp() + {milliseconds} * interval '1 millisecond' WHERE {filter}"
        );
        let changed = diesel::sql_query(text)
            .execute(&mut self.session)
            .unwrap_or_else(|error| panic!("{table}.{column}: {error}"));
        assert!(changed > 0, "no row of {table} meets {filter}");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        server().drop_database(&self.name);
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
