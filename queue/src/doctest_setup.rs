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
    // Workers open the file by its path until the process ends, so the next one removes it.
    let directory = std::env::temp_dir().join("leasehold-doc");
    std::fs::create_dir_all(&directory).expect("a directory");
    for old in directory.read_dir().expect("the directory").flatten() {
        let age = old.metadata().and_then(|file| file.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > std::time::Duration::from_secs(600)) {
            let _ = std::fs::remove_file(old.path());
        }
    }
    let path = directory.join(format!("{}.db", uuid::Uuid::new_v4()));
    let url = path.to_str().expect("a path in UTF-8").to_owned();
    let mut conn = SqliteConnection::establish(&url).expect("a new SQLite file");
    diesel::connection::SimpleConnection::batch_execute(&mut conn, "PRAGMA busy_timeout = 10000").expect("a setting");
    leasehold::migrate(&mut conn).expect("the queue's tables");
    (url, conn)
}
