//! Articles on chosen issues: a person and a scheduler ask for the same ones, and each issue gets one article.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::time::Duration;

use diesel::prelude::*;
use leasehold::selected::{Answer, Selected, Settled};
use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Running, Schema, Worker, manage};
use serde::{Deserialize, Serialize};

diesel::table! {
    /// One for each issue.
    articles (issue) {
        /// The issue.
        issue -> BigInt,
        /// The article.
        text -> Text,
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "write-article", unique(by = "issue"))]
struct WriteArticle {
    issue: i64,
}

impl Handler<SqliteConnection> for WriteArticle {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        // The slow part, outside of any transaction.
        let text = format!("About issue {}", self.issue);
        lease.commit(|tx| {
            let article = (articles::issue.eq(self.issue), articles::text.eq(&text));
            diesel::insert_into(articles::table).values(article).execute(tx)?;
            Ok(())
        })
    }
}

/// What an HTTP handler would answer.
fn status(answers: &[Selected<SqliteConnection>]) -> u16 {
    if answers.iter().any(|selected| selected.answer.is_claimed()) {
        202
    } else if answers.iter().any(|selected| matches!(selected.answer, Answer::Busy)) {
        503
    } else {
        409
    }
}

/// The one path, for whoever asks.
fn ask(
    running: &Running<SqliteConnection, ()>,
    who: &str,
    ids: &[i64],
) -> Result<Vec<Selected<SqliteConnection>>, Box<dyn Error>> {
    let answers = running.claim_selected(ids)?;
    println!("{who} asks for {ids:?}: {}", status(&answers));
    for selected in &answers {
        println!("  {}: {}", selected.asked, selected.answer);
    }
    Ok(answers)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    diesel::sql_query("CREATE TABLE articles (issue INTEGER NOT NULL, text TEXT NOT NULL)").execute(&mut conn)?;
    for issue in 1..=4 {
        WriteArticle { issue }.enqueue(&mut conn)?;
    }
    let embargo = EnqueueOptions::new().delay(Duration::from_secs(3600));
    WriteArticle { issue: 5 }.enqueue_with(&mut conn, &embargo)?;
    let schema = Schema::default();
    manage::cancel(&mut conn, &schema, 4, manage::Cancel::Soft, "ops", "withdrawn")?;

    let worker = Worker::<SqliteConnection, _>::new(&url, ()).claims_selected_only();
    let running = worker.register::<WriteArticle>().start()?;

    let by_hand = ask(&running, "a person", &[2, 1, 2])?;
    let scheduled = ask(&running, "the scheduler", &[1, 2, 3, 4, 5, 99])?;
    drop(ask(&running, "a person", &[1, 2, 3])?);

    // A request works off what it has occupied itself.
    for selected in by_hand {
        if let Answer::Claimed(job) = selected.answer {
            let id = job.id();
            let settled = job.work(|article: WriteArticle, lease| article.run(lease, &()));
            assert_eq!(settled, Settled::Completed);
            println!("written by the request: the article of job {id}");
        }
    }
    // The scheduler leaves it to the worker's threads.
    let handed_over = scheduled.into_iter().filter_map(|selected| selected.answer.claimed());
    handed_over.for_each(leasehold::selected::ClaimedJob::hand_over);
    while running.counts().completed < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }

    ask(&running, "a person", &[1, 2, 3])?;
    let written: i64 = articles::table.count().get_result(&mut conn)?;
    println!("{written} articles");

    manage::requeue(&mut conn, &schema, 4, "ops")?;
    if let Answer::Claimed(job) = running.claim_now(4)? {
        println!("requeued, and claimed: job {}, but nobody writes it", job.id());
    }
    let report = running.shutdown(Duration::from_secs(10));
    println!("{} abandoned", report.abandoned);
    Ok(())
}
