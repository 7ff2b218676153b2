//! A batch: many jobs, progress while they run, and one job that is called when all have ended.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use diesel::prelude::*;
use leasehold::{Batch, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Schema, Worker, batch};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "convert-page")]
struct ConvertPage {
    page: u32,
}

impl Handler<SqliteConnection> for ConvertPage {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let batch = lease.batch_id();
        match (self.page, batch) {
            (13, _) => Err(JobError::discard("no page has this number")),
            // The last page refers to an appendix: the batch grows with this commit, or not at all.
            (20, Some(batch)) => lease.commit(|tx| {
                batch::add(tx, &Schema::default(), batch, &ConvertPage { page: 21 })?;
                Ok(())
            }),
            _ => lease.finish(),
        }
    }
}

/// Called once all pages have ended, however they did.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "bind-book")]
struct BindBook {
    title: String,
}

impl Handler<SqliteConnection> for BindBook {
    fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        let Some(batch) = lease.callback_of()? else {
            return Err(JobError::discard("not the callback of a batch"));
        };
        println!(
            "bind {}: {} of {} pages",
            self.title,
            batch.counts.completed,
            batch.counts.total()
        );
        lease.finish()
    }
}

/// Called as soon as a page is discarded.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "tell-editor", priority = 10)]
struct TellEditor;

impl Handler<SqliteConnection> for TellEditor {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        println!("tell the editor that a page is missing");
        lease.finish()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    let pages: Vec<ConvertPage> = (1..=20).map(|page| ConvertPage { page }).collect();
    let id = Batch::new("book")
        .add_all(&pages, &EnqueueOptions::new())
        .on_finished(&BindBook {
            title: "Emma".to_owned(),
        })
        .on_discarded(&TellEditor)
        .enqueue(&mut conn)?
        .id;

    let running = Worker::<SqliteConnection, _>::new(&url, ())
        .threads(1)
        .register::<ConvertPage>()
        .register::<BindBook>()
        .register::<TellEditor>()
        .start()?;
    // A bar would show each; how many there are depends on the machine.
    let mut progress = Vec::new();
    let book = batch::wait_for(&mut conn, &Schema::default(), id, Duration::from_secs(60), |book| {
        progress.push(book.counts.ended());
    })?;
    while running.counts().completed < 20 + 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    running.shutdown(Duration::from_secs(10));

    println!("progress only grew: {}", progress.is_sorted());
    println!(
        "{}: {} completed, {} discarded",
        book.name, book.counts.completed, book.counts.discarded
    );
    Ok(())
}
