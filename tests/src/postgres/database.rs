use std::fmt;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use leasehold::migrate::{Migrations, RoleNames};

use super::ROLE_VARIABLE;
use super::server::{server, with_user};
use crate::TestDb;
use crate::answer::{Integer, OptionalText};

const GROUP: &str = "leasehold_test";
const LOGIN: &str = "leasehold_test_login";

/// An empty database on the tests' server, dropped with this.
pub struct Database {
    name: String,
    url: String,
    session: PgConnection,
}

/// Makes an empty database.
pub fn database() -> Database {
    let (name, url) = server().create_database();
    let mut session = PgConnection::establish(&url).expect("the new database can be connected to");
    let url = if restricted() {
        restrict(&mut session, &url)
    } else {
        url
    };
    Database { name, url, session }
}

/// Whether the tests connect as a producer and worker who may do nothing else, and the queue's tables are there before.
fn restricted() -> bool {
    std::env::var_os(ROLE_VARIABLE).is_some_and(|role| role == "worker")
}

/// Makes the queue's tables, and a login that may use them and the tables that tests make, but change none; its URL.
fn restrict(session: &mut PgConnection, url: &str) -> String {
    leasehold::migrate(session).expect("an empty database can be migrated");
    let names = RoleNames::new().prefix(GROUP).expect("a plain name");
    let roles = Migrations::new().roles_sql(&names);
    // Roles are the server's: another test may make the same at this instant.
    let login = format!(
        "DO $$ BEGIN CREATE ROLE {LOGIN} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
         DO $$ BEGIN GRANT {GROUP}_producer, {GROUP}_worker TO {LOGIN}; EXCEPTION WHEN unique_violation THEN NULL; END $$;
         ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {LOGIN};
         ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO {LOGIN};"
    );
    for statements in [roles, login] {
        session
            .batch_execute(&statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }
    with_user(url, LOGIN)
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
