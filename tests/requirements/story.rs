//! A handler that something happens to between its begin and its commit, on a worker of its own.

use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use leasehold::__private::ConnectionSettings;
use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, Outcome, Refusal, Worker};
use leasehold_tests::{TestDb, eventually};
use serde::{Deserialize, Serialize};

use crate::jobs::SOON;

/// The kind that [`crate::jobs::new_job`] enqueues.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "test")]
pub(crate) struct Told {}

/// Is given a connection and the job's id.
type Meanwhile<C> = dyn Fn(&mut C, i64) + Send + Sync;

/// What happens meanwhile, and who is told how the commit ended.
pub(crate) struct Story<C> {
    meanwhile: Box<Meanwhile<C>>,
    url: String,
    strict: bool,
    /// Whether the handler looks at its lease until that is lost, before it commits.
    watch: bool,
    told: Sender<Result<(), Refusal>>,
}

impl<C: Backend> Handler<C, Story<C>> for Told {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, story: &Story<C>) -> Outcome<'j> {
        let mut other = C::connect(&story.url, &ConnectionSettings::default()).unwrap();
        (story.meanwhile)(&mut other, lease.job_id());
        drop(other);
        if story.watch {
            eventually(SOON, "the handler is told that its lease is lost", || lease.is_lost());
        }
        let lease = if story.strict { lease.strict() } else { lease };
        let ended = lease.commit(|tx| {
            tx.batch_execute("INSERT INTO business VALUES ('handler')")?;
            tx.batch_execute("INSERT INTO outbox VALUES ('done')")?;
            Ok(())
        });
        let told = ended.as_ref().map(|_| ()).map_err(verdict);
        story.told.send(told).unwrap();
        ended
    }
}

fn verdict(error: &JobError) -> Refusal {
    error
        .refusal()
        .unwrap_or_else(|| panic!("not a refusal: {error}"))
        .clone()
}

/// How a handler behaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    pub(crate) strict: bool,
    pub(crate) watch: bool,
}

/// Runs the one job that is enqueued in a worker, with `meanwhile` (given a connection and the job's id) between the begin of the handler and
/// its commit: business row, outbox row, completion. How the commit ended.
#[track_caller]
pub(crate) fn commit_after<Db: TestDb>(
    db: &Db,
    how: How,
    meanwhile: impl Fn(&mut Db::Connection, i64) + Send + Sync + 'static,
) -> Result<(), Refusal> {
    commit_at::<Db::Connection>(db.url(), how, meanwhile)
}

/// As [`commit_after`], on the database of a URL.
#[track_caller]
pub(crate) fn commit_at<C: Backend>(
    url: String,
    how: How,
    meanwhile: impl Fn(&mut C, i64) + Send + Sync + 'static,
) -> Result<(), Refusal> {
    let (told, hears) = bounded(10);
    let story = Story {
        meanwhile: Box::new(meanwhile),
        url: url.clone(),
        strict: how.strict,
        watch: how.watch,
        told,
    };
    let running = Worker::<C, _>::new(url, story)
        .threads(1)
        // What happens to the lease is the test's business.
        .sweep_interval(Duration::from_secs(3600))
        .register::<Told>()
        .start()
        .unwrap();
    let ended = hears.recv_timeout(SOON * 2).expect("the handler commits");
    running.shutdown(SOON);
    ended
}
