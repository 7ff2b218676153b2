//! Batches and workflows while workers come and go, leases run out and others add: each callback once, none too early,
//! none missing. `LEASEHOLD_RACE_SECONDS` makes them longer.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diesel::QueryableByName;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use leasehold::__private::{ClaimRequest, ConnectionSettings, Served};
use leasehold::batch::{self, BatchError};
use leasehold::inspect::Filter;
use leasehold::manage::{self, Cancel};
use leasehold::{
    Backend, Batch, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Running, Schema, Worker, Workflow,
    testing,
};
use leasehold_tests::jobs::{Effects, SOON, prepare};
use leasehold_tests::{TestDb, conformance, eventually, race_time};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Callbacks note their batch's number with this added.
const CALLBACK: i64 = 1_000_000_000;

/// Adds to its batch with its commit, until its depth is used up.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "grow", lease = "1s", max_attempts = 100, backoff = "fixed(1ms)")]
struct Grow {
    depth: u32,
}

/// Called when a batch is done.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "done", lease = "1s", max_attempts = 1000, backoff = "fixed(1ms)")]
struct Done {
    batch: i64,
}

impl<C: Effects> Handler<C> for Grow {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        let batch = lease.batch_id().expect("it belongs to a batch");
        if fastrand::u8(..) < 10 {
            return Err(JobError::discard("bad luck"));
        }
        lease.commit(|tx| {
            for _ in 0..self.depth {
                batch::add(tx, &Schema::default(), batch, &Grow { depth: self.depth - 1 })?;
            }
            Ok(())
        })
    }
}

impl<C: Effects> Handler<C> for Done {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        let seen = lease.callback_of()?.expect("it is a callback");
        assert!(
            seen.is_finished() && seen.counts.total() == seen.counts.ended(),
            "{seen:?}"
        );
        lease.commit(|tx| {
            tx.note(CALLBACK + self.batch)?;
            Ok(())
        })
    }
}

/// What ends a race.
struct Race {
    over: AtomicBool,
    /// How much had not ended when last counted.
    open: AtomicI64,
    until: Instant,
}

/// Ends the race, also when the test has failed.
struct End<'a>(&'a Race);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

impl Race {
    fn new() -> Self {
        Self {
            over: AtomicBool::new(false),
            open: AtomicI64::new(0),
            until: Instant::now() + race_time(),
        }
    }

    /// Whether to enqueue more; a moment's pause when there is plenty.
    fn wants_more(&self) -> bool {
        if self.open.load(Ordering::Acquire) > 100 {
            std::thread::sleep(Duration::from_millis(10));
        }
        Instant::now() < self.until
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }
}

fn connect<C: Backend>(url: &str) -> C {
    C::connect(url, &ConnectionSettings::default()).unwrap()
}

/// Workers that are dropped in the middle of their work, again and again, while `race` goes on.
fn come_and_go<C: Backend>(race: &Race, start: impl Fn() -> Running<C, ()>) {
    while race.goes_on() {
        let running = start();
        std::thread::sleep(Duration::from_millis(fastrand::u64(100..500))); // any moment will do
        drop(running);
    }
}

/// Claims jobs as processes do that then die.
fn claim_and_die_often<J: Job, C: Backend>(race: &Race, conn: &mut C) {
    let serves = [Served {
        queue: J::QUEUE.to_owned(),
        kind: J::KIND.to_owned(),
        version: 1,
    }];
    while race.goes_on() {
        std::thread::sleep(Duration::from_millis(20)); // not every job
        let request = ClaimRequest {
            serves: &serves,
            limit: 1,
            lease_token: Uuid::new_v4(),
            worker: Uuid::new_v4(),
            begun: fastrand::bool(),
            counted: &[],
            oldest: false,
            behind: &[],
        };
        for row in conn.claim(&Schema::default(), &request).unwrap() {
            testing::expire_lease(conn, &Schema::default(), row.id).unwrap();
        }
    }
}

conformance!(
    fn every_batch_that_grows_calls_exactly_once(db: &mut Db) {
        prepare(db);
        let (url, race) = (db.url(), Race::new());
        let worker = || {
            let worker = Worker::<Connection, _>::new(&url, ())
                .threads(2)
                .sweep_interval(Duration::from_millis(100));
            worker.register::<Grow>().register::<Done>().start().unwrap()
        };
        // How many jobs each batch was given from outside, by its id; and its number.
        let added: Mutex<BTreeMap<i64, u64>> = Mutex::default();
        let (number, refused) = (AtomicI64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let end = End(&race);
            for _ in 0..2 {
                scope.spawn(|| come_and_go(&race, worker));
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut conn = connect::<Connection>(&url);
                    while race.wants_more() {
                        let batch = number.fetch_add(1, Ordering::Relaxed);
                        let jobs = vec![
                            Grow {
                                depth: fastrand::u32(0..3)
                            };
                            fastrand::usize(0..4)
                        ];
                        let count = u64::try_from(jobs.len()).unwrap();
                        let options = EnqueueOptions::new();
                        let enqueued = Batch::new("grows")
                            .add_all(&jobs, &options)
                            .on_finished(&Done { batch });
                        let id = enqueued.enqueue(&mut conn).unwrap().id;
                        added.lock().unwrap().insert(id, count);
                    }
                });
            }
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut conn = connect::<Connection>(&url);
                    while race.wants_more() {
                        // One of the newest: it is about to finish.
                        let id = added.lock().unwrap().keys().rev().nth(fastrand::usize(0..4)).copied();
                        let Some(id) = id else { continue };
                        let outcome = conn.transaction(|tx| {
                            let added = batch::add(tx, &Schema::default(), id, &Grow { depth: 0 })?;
                            if fastrand::bool() {
                                std::thread::yield_now();
                            }
                            Ok::<_, BatchError>(added)
                        });
                        match outcome {
                            Ok(_) => *added.lock().unwrap().entry(id).or_default() += 1,
                            Err(BatchError::Finished { .. }) => _ = refused.fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                });
            }
            scope.spawn(|| claim_and_die_often::<Grow, _>(&race, &mut connect::<Connection>(&url)));
            let mut conn = connect::<Connection>(&url);
            eventually(SOON * 3, "every batch has finished and called", || {
                std::thread::sleep(Duration::from_millis(20)); // a count each time
                race.open.store(open::<Connection>(&mut conn), Ordering::Release);
                Instant::now() > race.until && open::<Connection>(&mut conn) == 0
            });
            drop(end);
        });
        let batches = number.into_inner();
        assert_eq!(
            db.integer(&format!("SELECT count(*) FROM effects WHERE n >= {CALLBACK}")),
            batches
        );
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), batches);
        // What was added was counted, and nothing ended after its batch.
        let kept = "SELECT b.id FROM leasehold.batches AS b WHERE b.completed + b.discarded + b.cancelled
            <> (SELECT count(*) FROM leasehold.finished_jobs AS f WHERE f.batch_id = b.id)";
        assert_eq!(
            db.texts(&kept.replace("b.id FROM", "CAST(b.id AS text) FROM")),
            Vec::<Option<String>>::new()
        );
        for (id, at_least) in added.into_inner().unwrap() {
            let total = db.integer(&format!(
                "SELECT completed + discarded + cancelled FROM leasehold.batches WHERE id = {id}"
            ));
            assert!(
                u64::try_from(total).unwrap() >= at_least,
                "batch {id}: {total} of {at_least}"
            );
        }
        assert!(batches > 5, "{batches} batches, {refused:?} late");
    }
);

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    value: i64,
}

/// How many jobs and batches have not ended.
fn open<C: Asks>(conn: &mut C) -> i64 {
    conn.ask(&format!(
        "SELECT (SELECT count(*) FROM {0}jobs) + (SELECT count(*) FROM {0}batches WHERE finished_at IS NULL) AS value",
        C::PREFIX
    ))
}

trait Asks {
    const PREFIX: &'static str;

    fn ask(&mut self, query: &str) -> i64;
}

macro_rules! asks {
    ($connection:ty, $prefix:literal) => {
        impl Asks for $connection {
            const PREFIX: &'static str = $prefix;

            fn ask(&mut self, query: &str) -> i64 {
                let count: Count = diesel::sql_query(query).get_result(self).unwrap();
                count.value
            }
        }
    };
}
#[cfg(feature = "sqlite")]
asks!(diesel::SqliteConnection, "leasehold_");
#[cfg(feature = "postgres")]
asks!(diesel::PgConnection, "leasehold.");

/// A job of a workflow: notes its number after all that it waits for have noted theirs.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "node", lease = "1s", max_attempts = 1000, backoff = "fixed(1ms)")]
struct Node {
    n: i64,
    after: Vec<i64>,
}

impl<C: Effects + Asks> Handler<C> for Node {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        let after: Vec<String> = self.after.iter().map(i64::to_string).collect();
        let query = format!(
            "SELECT count(DISTINCT n) AS value FROM effects WHERE n IN ({})",
            after.join(", ")
        );
        lease.commit(|tx| {
            // One that runs too early is never made up for.
            if !after.is_empty() && usize::try_from(tx.ask(&query))? != after.len() {
                return Err(JobError::discard("it ran before what it waits for"));
            }
            tx.note(self.n)?;
            Ok(())
        })
    }
}

/// A workflow of `count` jobs, each after some of those before it.
fn graph<C: Backend>(conn: &mut C, count: i64) {
    let workflow = Workflow::new();
    let mut jobs = Vec::new();
    for n in 0..count {
        let mut after: Vec<i64> = (0..fastrand::usize(0..4))
            .filter(|_| n > 0)
            .map(|_| fastrand::i64((n - 60).max(0)..n))
            .collect();
        if n + 1 == count {
            after = (0..n).collect();
        }
        after.sort_unstable();
        after.dedup();
        let before: Vec<_> = after.iter().map(|n| jobs[usize::try_from(*n).unwrap()]).collect();
        jobs.push(workflow.add(&Node { n, after }).after_all(before));
    }
    workflow.enqueue(conn).unwrap();
}

conformance!(
    fn every_job_of_a_workflow_runs_once_and_after_all_that_it_waits_for(db: &mut Db) {
        const JOBS: i64 = 300;
        let mut conn = prepare(db);
        let (url, race) = (db.url(), Race::new());
        graph(&mut conn, JOBS);
        let worker = || {
            let worker = Worker::<Connection, _>::new(&url, ())
                .threads(2)
                .sweep_interval(Duration::from_millis(100));
            worker.register::<Node>().start().unwrap()
        };
        std::thread::scope(|scope| {
            let end = End(&race);
            for _ in 0..4 {
                scope.spawn(|| come_and_go(&race, worker));
            }
            scope.spawn(|| claim_and_die_often::<Node, _>(&race, &mut connect::<Connection>(&url)));
            eventually(SOON * 3, "every job has run", || {
                std::thread::sleep(Duration::from_millis(20)); // a count each time
                open::<Connection>(&mut conn) == 0
            });
            drop(end);
        });
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'"),
            JOBS
        );
        assert_eq!(db.integer("SELECT count(*) FROM effects"), JOBS);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), JOBS);
    }
);

conformance!(
    /// The check's first look finds no open job; the add commits before the check has locked the batch.
    fn an_add_at_the_moment_of_the_check_keeps_the_batch_open(db: &mut Db) {
        prepare(db);
        let (url, until) = (db.url(), Instant::now() + race_time());
        let (added, finished) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (batches, given) = std::sync::mpsc::sync_channel::<i64>(0);
                scope.spawn(|| {
                    let mut conn = connect::<Connection>(&url);
                    for id in given {
                        // About when the check comes, which is soon.
                        let late = fastrand::u64(0..50);
                        std::thread::sleep(Duration::from_micros(late * late));
                        match batch::add(&mut conn, &Schema::default(), id, &Grow { depth: 0 }) {
                            Ok(_) => _ = added.fetch_add(1, Ordering::Relaxed),
                            Err(BatchError::Finished { .. }) => _ = finished.fetch_add(1, Ordering::Relaxed),
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                });
                scope.spawn(|| {
                    let batches = batches;
                    let mut conn = connect::<Connection>(&url);
                    // It has nothing to run: it looks, as maintenance does.
                    let looks = testing::Runner::<Connection, _>::new(()).register::<Done>();
                    while Instant::now() < until {
                        let id = Batch::new("raced")
                            .add(&Grow { depth: 0 })
                            .enqueue(&mut conn)
                            .unwrap()
                            .id;
                        manage::cancel_all(
                            &mut conn,
                            &Schema::default(),
                            &Filter::new().batch(id),
                            Cancel::Hard,
                            "ops",
                            "ends",
                        )
                        .unwrap();
                        if batches.send(id).is_err() {
                            return;
                        }
                        looks.run_one(&mut conn).unwrap();
                    }
                });
            }
        });
        let lost = "SELECT count(*) FROM leasehold.jobs WHERE batch_id IN (SELECT id FROM leasehold.batches WHERE finished_at IS NOT NULL)";
        assert_eq!(db.integer(lost), 0, "{added:?} added, {finished:?} refused");
        assert!(added.into_inner() + finished.into_inner() > 0);
    }
);
