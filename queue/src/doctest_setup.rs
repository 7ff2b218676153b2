// Shared by the examples of the documentation: a job type, and a fresh SQLite file.
#[allow(unused_imports)]
use diesel::prelude::*;
#[allow(unused_imports)]
use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};

#[derive(serde::Serialize, serde::Deserialize, leasehold::Job)]
#[job(kind = "greet")]
struct Greet {
    name: String,
}

impl Handler<SqliteConnection> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        lease.finish()
    }
}

/// The URL of a new database with the queue's tables, and a connection to it.
#[allow(dead_code)]
fn doctest_database() -> (String, SqliteConnection) {
    let path = std::env::temp_dir().join(format!("leasehold-doc-{}-{:?}.db", std::process::id(), std::time::Instant::now()).replace([' ', '{', '}', ':'], ""));
    let url = path.to_str().expect("a path in UTF-8").to_owned();
    let mut conn = SqliteConnection::establish(&url).expect("a new SQLite file");
    diesel::connection::SimpleConnection::batch_execute(&mut conn, "PRAGMA busy_timeout = 10000").expect("a setting");
    leasehold::migrate(&mut conn).expect("the queue's tables");
    (url, conn)
}
