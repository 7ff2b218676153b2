//! No job starves, wherever in the order it comes while a backlog is worked off that never ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use diesel::connection::SimpleConnection;
use leasehold::inspect::{Filter, State};
use leasehold::manage::{self, Cancel};
use leasehold::{Backend, EnqueueOptions, Job, Running, Schema, Worker, inspect, testing};
use leasehold_tests::jobs::{SOON, prepare};
use leasehold_tests::{Over, TestDb, conformance, eventually};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

mod ahead;
mod clock;
mod job;
use job::{Book, First, One, Other, all_are_done, feed};

/// How a worker claims.
#[derive(Debug, Clone, Copy)]
enum Claims {
    Adaptive,
    Fixed(usize),
    Unbatched,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// So many jobs.
    Enqueue {
        other: bool,
        elsewhere: bool,
        priority: i16,
        due_ms: i64,
        jobs: usize,
        first: First,
        takes_ms: u64,
    },
    /// From here on in a transaction that is committed later.
    BeginLate,
    CommitLate,
    /// Takes the lease of every so many'th job away.
    Expire(i64),
    /// Cancels every so many'th job, and makes all that are cancelled ready again.
    CancelAndRequeue(i64),
    Pause {
        ms: u64,
    },
}

fn worker<C: Backend>(url: &str, book: &Book, threads: usize, claims: Claims) -> Running<C, Book> {
    let worker = Worker::<C, Book>::new(url, book.clone())
        .threads(threads)
        .queues(["default", "b"])
        .sweep_interval(Duration::from_millis(50));
    let worker = match claims {
        Claims::Adaptive => worker,
        Claims::Fixed(jobs) => worker.fixed_batch(jobs),
        Claims::Unbatched => worker.unbatched(),
    };
    worker.register::<One>().register::<Other>().start().unwrap()
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let first = prop_oneof![4 => Just(First::Finishes), 1 => Just(First::Fails), 1 => Just(First::Snoozes)];
    let priority = prop_oneof![3 => Just(0_i16), 1 => Just(-7), 1 => Just(9), 1 => any::<i16>()];
    let due = prop_oneof![3 => Just(0_i64), 2 => -3_600_000..0_i64, 1 => 1..300_i64];
    let takes = prop_oneof![6 => Just(0_u64), 1 => 1..20_u64, 1 => Just(400)];
    let enqueue = (any::<bool>(), any::<bool>(), priority, due, 1..6_usize, first, takes).prop_map(
        |(other, elsewhere, priority, due_ms, jobs, first, takes_ms)| Event::Enqueue {
            other,
            elsewhere,
            priority,
            due_ms,
            jobs,
            first,
            takes_ms,
        },
    );
    let event = prop_oneof![
        8 => enqueue,
        1 => Just(Event::BeginLate),
        1 => Just(Event::CommitLate),
        1 => (1..4_i64).prop_map(Event::Expire),
        1 => (1..4_i64).prop_map(Event::CancelAndRequeue),
        3 => (1..60_u64).prop_map(|ms| Event::Pause { ms }),
    ];
    prop::collection::vec(event, 4..14)
}

fn workers() -> impl Strategy<Value = Vec<(usize, Claims)>> {
    let claims = prop_oneof![
        2 => Just(Claims::Adaptive),
        1 => Just(Claims::Fixed(0)),
        1 => Just(Claims::Fixed(5)),
        1 => Just(Claims::Unbatched),
    ];
    prop::collection::vec((1..5_usize, claims), 1..3)
}

/// What was enqueued in one run, and whose lease was taken.
#[derive(Default)]
struct Told {
    ids: BTreeMap<i64, i64>,
    disturbed: BTreeSet<i64>,
}

struct Run<'a, C: Backend> {
    conn: &'a mut C,
    late: &'a mut C,
    is_late: bool,
    told: Told,
    next: i64,
}

impl<C: Backend + SimpleConnection> Run<'_, C> {
    fn apply(&mut self, event: Event) {
        let schema = Schema::default();
        let every = |nth: i64, told: &Told| -> Vec<(i64, i64)> {
            told.ids
                .iter()
                .map(|(n, id)| (*n, *id))
                .filter(|(n, _)| n % nth == 0)
                .collect()
        };
        match event {
            Event::Enqueue { .. } => self.enqueue(event),
            // A transaction of SQLite that writes keeps everybody else from writing.
            Event::BeginLate if C::NAME == "postgres" && !self.is_late => {
                self.late.batch_execute("BEGIN").unwrap();
                self.is_late = true;
            }
            Event::CommitLate => self.commit_late(),
            Event::BeginLate => {}
            Event::Expire(nth) => {
                for (n, id) in every(nth, &self.told) {
                    self.told.disturbed.insert(n);
                    testing::expire_lease(self.conn, &schema, id).unwrap();
                }
            }
            Event::CancelAndRequeue(nth) => {
                for (n, id) in every(nth, &self.told) {
                    self.told.disturbed.insert(n);
                    manage::cancel(self.conn, &schema, id, Cancel::Hard, "ops", "starve").unwrap();
                }
                self.requeue();
            }
            Event::Pause { ms } => std::thread::sleep(Duration::from_millis(ms)),
        }
    }

    fn requeue(&mut self) {
        manage::requeue_all(
            self.conn,
            &Schema::default(),
            &Filter::new().state(State::Cancelled),
            "ops",
        )
        .unwrap();
    }

    fn commit_late(&mut self) {
        if std::mem::take(&mut self.is_late) {
            self.late.batch_execute("COMMIT").unwrap();
        }
    }

    fn enqueue(&mut self, event: Event) {
        let Event::Enqueue {
            other,
            elsewhere,
            priority,
            due_ms,
            jobs,
            first,
            takes_ms,
        } = event
        else {
            return;
        };
        let (now, due) = (SystemTime::now(), Duration::from_millis(due_ms.unsigned_abs()));
        let options = EnqueueOptions::new()
            .queue(if elsewhere { "b" } else { "default" })
            .priority(priority);
        let options = match due_ms {
            0 => options,
            1.. => options.run_at(now + due),
            _ => options.run_at(now - due),
        };
        for _ in 0..jobs {
            let one = One {
                n: self.next,
                first,
                takes: Duration::from_millis(takes_ms),
            };
            let conn = if self.is_late { &mut *self.late } else { &mut *self.conn };
            let id = match other {
                true => Other { one }.enqueue_with(conn, &options),
                false => one.enqueue_with(conn, &options),
            };
            self.told.ids.insert(self.next, id.unwrap().id());
            self.next += 1;
        }
    }
}

/// Events against workers under a backlog of jobs of this length, which goes on until every job of the events is done.
fn no_job_starves<Db: TestDb>(
    db: &Db,
    backlog: Duration,
    workers: &[(usize, Claims)],
    events: &[Event],
) -> Result<(), TestCaseError>
where
    Db::Connection: SimpleConnection,
{
    let (mut conn, mut late, mut feeder) = (db.connect(), db.connect(), db.connect());
    let (book, over) = (Book::default(), AtomicBool::new(false));
    let url = db.url();
    let running: Vec<Running<Db::Connection, Book>> = workers
        .iter()
        .map(|(threads, claims)| worker(&url, &book, *threads, *claims))
        .collect();
    let told = std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| feed(&mut feeder, backlog, &over));
        // The backlog is being worked off, and claims begin behind it.
        let begun = || running.iter().map(|running| running.counts().completed).sum::<u64>();
        eventually(SOON, "the backlog is worked off", || begun() > 200);
        let (conn, late) = (&mut conn, &mut late);
        let mut run = Run {
            conn,
            late,
            is_late: false,
            told: Told::default(),
            next: 0,
        };
        events.iter().for_each(|event| run.apply(*event));
        run.commit_late();
        run.requeue();
        let numbers: Vec<i64> = run.told.ids.keys().copied().collect();
        all_are_done(&book, &numbers).map(|()| run.told)
    });
    let told = told.map_err(TestCaseError::fail)?;
    eventually(SOON * 2, "all are done", || {
        manage::requeue_all(
            &mut conn,
            &Schema::default(),
            &Filter::new().state(State::Cancelled),
            "ops",
        )
        .unwrap();
        let counts = inspect::counts(&mut conn, &Schema::default()).unwrap();
        counts.iter().all(|count| count.state == State::Completed)
    });
    drop(running);
    for n in told.ids.keys().filter(|n| !told.disturbed.contains(n)) {
        let begun = book.begun(*n);
        let leases: BTreeSet<i64> = begun.iter().copied().collect();
        prop_assert_eq!(
            leases.len(),
            begun.len(),
            "job {} began twice on a lease: {:?}",
            n,
            begun
        );
        prop_assert!(begun.len() <= 2, "job {} began too often: {:?}", n, begun);
    }
    Ok(())
}

fn check<Db: TestDb>(db: &Db, cases: u32)
where
    Db::Connection: SimpleConnection,
{
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 8,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    // Quicker than the database, and slower: then there are always some claimed ahead.
    let backlog = prop_oneof![Just(Duration::from_micros(200)), Just(Duration::from_millis(3))];
    let ran = runner.run(&(backlog, workers(), events()), |(backlog, workers, events)| {
        no_job_starves(db, backlog, &workers, &events)
    });
    match ran {
        Ok(()) => {}
        Err(TestError::Fail(why, (backlog, workers, events))) => {
            panic!("{why}\nbacklog: {backlog:?}\nworkers: {workers:?}\nevents: {events:#?}")
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

fn cases() -> u32 {
    u32::try_from(leasehold_tests::race_time().as_secs() * 2).unwrap()
}

conformance!(
    fn no_job_starves_whatever_comes_while_a_backlog_is_worked_off(db: &mut Db) {
        drop(prepare(db));
        check(db, cases());
    }
);

conformance!(
    /// Entries that no vacuum may remove make every look from the front dear.
    #[skip(sqlite, "SQLite's index has no dead entries")]
    fn no_job_starves_under_an_old_transaction(db: &mut Db) {
        let mut conn = prepare(db);
        let mut old = db.connect();
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM effects")
            .unwrap();
        let quick = One {
            n: -1,
            first: First::Finishes,
            takes: Duration::ZERO,
        };
        One::enqueue_all(&vec![quick; 20_000], &mut conn, &EnqueueOptions::new()).unwrap();
        db.sql("DELETE FROM leasehold.jobs");
        check(db, cases());
        old.batch_execute("ROLLBACK").unwrap();
    }
);
