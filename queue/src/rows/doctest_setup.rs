// Shared by the examples of this module's documentation: issues whose rows are owned, and a fresh SQLite file of them.
#[allow(unused_imports)]
use std::time::Duration;

#[allow(unused_imports)]
use diesel::prelude::*;
#[allow(unused_imports)]
use leasehold::rows::{self, Answer};

mod doctest_database {
    include!("../doctest_setup.rs");

    pub(super) fn new() -> (String, SqliteConnection) {
        doctest_database()
    }
}

diesel::table! {
    issue (id) {
        id -> BigInt,
        status -> Text,
        generation -> BigInt,
        lease_token -> Nullable<Text>,
        lease_until -> Nullable<BigInt>,
    }
}
diesel::table! { article (id) { id -> BigInt, issue -> BigInt } }

struct Issue;

impl rows::OwnedRow for Issue {
    type Table = issue::table;
    type Id = issue::id;
    type Status = issue::status;
    type Generation = issue::generation;
    type LeaseToken = issue::lease_token;
    type LeaseUntil = issue::lease_until;
    const READY: &'static [&'static str] = &["PENDING", "FAILED"];
    const RUNNING: &'static str = "IN_PROGRESS";
}

/// The URL of a database with three issues, of which two can be claimed, and a connection to it.
#[allow(dead_code)]
fn doctest_issues() -> (String, SqliteConnection) {
    let (url, mut conn) = doctest_database::new();
    diesel::connection::SimpleConnection::batch_execute(
        &mut conn,
        "CREATE TABLE issue (id INTEGER PRIMARY KEY, status TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 0,
            lease_token TEXT, lease_until INTEGER);
         CREATE TABLE article (id INTEGER PRIMARY KEY, issue INTEGER NOT NULL);
         INSERT INTO issue (id, status) VALUES (1, 'PENDING'), (2, 'FAILED'), (3, 'DONE')",
    )
    .expect("issues");
    (url, conn)
}

/// The lease of an issue.
#[allow(dead_code)]
fn doctest_lease(conn: &mut SqliteConnection) -> rows::RowLease<Issue> {
    let answers = rows::claim(conn, &[1], Duration::from_secs(60)).expect("an answer");
    answers.into_iter().next().and_then(|(_, answer)| answer.claimed()).expect("a lease")
}
