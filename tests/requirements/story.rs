//! A handler that something happens to between its begin and its commit.

use crossbeam_channel::{Receiver, Sender, bounded};
use leasehold::__private::ConnectionSettings;
use leasehold::outbox::{self, Event};
use leasehold::testing::Runner;
use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, Outcome, Refusal, Schema, Worker};
use leasehold_tests::{TestDb, eventually};
use serde::{Deserialize, Serialize};

use crate::jobs::{SOON, control};

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
    how: How,
    told: Sender<Result<(), Refusal>>,
}

impl<C> Story<C> {
    fn new(
        url: String,
        how: How,
        meanwhile: impl Fn(&mut C, i64) + Send + Sync + 'static,
    ) -> (Self, Receiver<Result<(), Refusal>>) {
        let (told, hears) = bounded(10);
        let meanwhile = Box::new(meanwhile);
        let story = Self {
            meanwhile,
            url,
            how,
            told,
        };
        (story, hears)
    }
}

impl<C: Backend> Handler<C, Story<C>> for Told {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, story: &Story<C>) -> Outcome<'j> {
        let mut other = C::connect(&story.url, &ConnectionSettings::default()).unwrap();
        (story.meanwhile)(&mut other, lease.job_id());
        drop(other);
        if story.how.watch {
            eventually(SOON, "the handler is told that its lease is lost", || lease.is_lost());
        }
        let lease = if story.how.strict { lease.strict() } else { lease };
        let ended = lease.commit(|tx| {
            tx.batch_execute("INSERT INTO business VALUES ('handler')")?;
            outbox::emit(tx, &Schema::default(), &Event::new("done", "done"))?;
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
    /// Looks at the lease until that is lost, before the commit.
    pub(crate) watch: bool,
}

/// Runs the one job that is enqueued, with `meanwhile` between the begin of the handler and its commit: business row, outbox
/// row, completion. How the commit ended. Nobody else is there: what happens to the lease is the test's alone.
#[track_caller]
pub(crate) fn commit_after<Db: TestDb>(
    db: &Db,
    how: How,
    meanwhile: impl Fn(&mut Db::Connection, i64) + Send + Sync + 'static,
) -> Result<(), Refusal> {
    let (story, hears) = Story::new(db.url(), how, meanwhile);
    let runner = Runner::new(story).register::<Told>();
    assert!(runner.run_one(&mut control(db)).unwrap(), "there is a job to run");
    hears.try_recv().unwrap()
}

/// As [`commit_after`], in a worker with all that belongs to it.
#[track_caller]
pub(crate) fn commit_in_worker<C: Backend>(
    url: String,
    how: How,
    meanwhile: impl Fn(&mut C, i64) + Send + Sync + 'static,
) -> Result<(), Refusal> {
    run(url, how, 1, meanwhile).remove(0)
}

/// Runs `jobs` enqueued jobs one after the other in one worker: each commits.
#[track_caller]
pub(crate) fn commit_all<Db: TestDb>(db: &Db, jobs: usize) {
    for ended in run::<Db::Connection>(db.url(), How::default(), jobs, |_, _| {}) {
        ended.unwrap();
    }
}

#[track_caller]
fn run<C: Backend>(
    url: String,
    how: How,
    jobs: usize,
    meanwhile: impl Fn(&mut C, i64) + Send + Sync + 'static,
) -> Vec<Result<(), Refusal>> {
    let (story, hears) = Story::new(url.clone(), how, meanwhile);
    let running = Worker::<C, _>::new(url, story)
        .threads(1)
        .fixed_batch(0)
        .register::<Told>()
        .start()
        .unwrap();
    let ended = (0..jobs)
        .map(|_| hears.recv_timeout(SOON * 2).expect("the handler commits"))
        .collect();
    running.shutdown(SOON);
    ended
}
