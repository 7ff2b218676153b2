//! The program of the guide's first chapter: it counts the words of the files that it is given.

#![expect(clippy::print_stdout, missing_docs, reason = "the example's output and table")]

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

diesel::table! { counts (path) { path -> Text, words -> Integer } }

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "count-words", queue = "texts", max_attempts = 3, backoff = "fixed(1s)")]
struct CountWords {
    path: String,
}

impl Handler<SqliteConnection> for CountWords {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let text = std::fs::read_to_string(&self.path)?;
        let words = text.split_whitespace().count() as i32;
        lease.commit(|tx| {
            diesel::insert_into(counts::table)
                .values((counts::path.eq(&self.path), counts::words.eq(words)))
                .on_conflict(counts::path)
                .do_update()
                .set(counts::words.eq(words))
                .execute(tx)?;
            Ok(())
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init();
    let mut conn = SqliteConnection::establish("words.db")?;
    leasehold::migrate(&mut conn)?;
    conn.batch_execute(
        "PRAGMA busy_timeout = 10000;
         CREATE TABLE IF NOT EXISTS counts (path TEXT PRIMARY KEY, words INTEGER NOT NULL)",
    )?;
    for path in std::env::args().skip(1) {
        CountWords { path }.enqueue(&mut conn)?;
    }

    let worker = Worker::<SqliteConnection, _>::new("words.db", ()).register::<CountWords>();
    let counts = worker.run_until_empty()?.counts;
    println!(
        "{} completed, {} retried, {} discarded",
        counts.completed, counts.retried, counts.discarded
    );
    Ok(())
}
