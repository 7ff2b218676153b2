//! The schedule: now and then it asks for articles on all issues that wait for one.

use std::sync::Arc;

use leasehold::schedule::Schedule;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Running, StartError, Worker};
use serde::{Deserialize, Serialize};

use crate::desk::Desk;
use crate::tables::Press;

/// Issues at a time.
const BATCH: i64 = 200;

/// Asks for articles as a person would, and for those whose writers have died.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "request-articles", max_attempts = 1)]
struct RequestArticles {}

impl<C: Press> Handler<C, Arc<Desk<C>>> for RequestArticles {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, desk: &Arc<Desk<C>>) -> Outcome<'j> {
        let ids = lease.read(|conn| conn.eligible(BATCH))?;
        let answer = desk.occupy(&ids)?;
        log::info!("the schedule occupied {} issues", answer.occupied.len());
        lease.finish()
    }
}

/// Starts the worker that fires the schedule and runs its jobs, in this process. However many processes there are, each
/// fire time runs once.
///
/// # Errors
///
/// As [`Worker::start`]: a cron text that is wrong, among others.
pub fn start<C: Press>(database: &str, desk: Arc<Desk<C>>, cron: &str) -> Result<Running<C, Arc<Desk<C>>>, StartError> {
    Worker::<C, _>::new(database, desk)
        .threads(1)
        .register::<RequestArticles>()
        .schedule(Schedule::new("request articles", cron).job(&RequestArticles {}))
        .start()
}
