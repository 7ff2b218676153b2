use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diesel::QueryResult;
use diesel::connection::SimpleConnection;
use diesel::r2d2::{ConnectionManager, HandleEvent, Pool, event};
use diesel::result::Error;
use leasehold::{Backend, EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_tests::jobs::{Effects, SOON, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};
use serde::{Deserialize, Serialize};

/// Counts the connections that a pool opens.
#[derive(Debug, Default)]
struct Opened(Arc<AtomicU64>);

impl HandleEvent for Opened {
    fn handle_acquire(&self, _: event::AcquireEvent) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn pool_of_one<C: Backend>(url: &str) -> (Pool<ConnectionManager<C>>, Arc<AtomicU64>) {
    let opened = Arc::new(AtomicU64::new(0));
    let pool = Pool::builder()
        .max_size(1)
        .event_handler(Box::new(Opened(Arc::clone(&opened))))
        .connection_customizer(Box::new(Patient))
        .build(ConnectionManager::new(url))
        .unwrap();
    (pool, opened)
}

/// A host's connections wait for other writers, as the queue's own do.
#[derive(Debug)]
struct Patient;

impl<C: Backend> diesel::r2d2::CustomizeConnection<C, diesel::r2d2::Error> for Patient {
    fn on_acquire(&self, conn: &mut C) -> Result<(), diesel::r2d2::Error> {
        let set = match C::NAME {
            "sqlite" => conn.batch_execute("PRAGMA busy_timeout = 10000"),
            _ => Ok(()),
        };
        set.map_err(diesel::r2d2::Error::QueryError)
    }
}

/// Reads, and commits what it has read.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "read-then-commit")]
struct ReadThenCommit {
    n: i64,
}

impl<C: Effects> Handler<C> for ReadThenCommit {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        lease.read(|conn| conn.batch_execute("SELECT 1"))?;
        lease.read(|conn| conn.batch_execute("SELECT 2"))?;
        lease.commit(|tx| {
            tx.note(self.n)?;
            Ok(())
        })
    }
}

conformance!(
    fn a_pool_of_one_connection_serves_eight_threads_that_read_and_then_commit(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<_> = (1..=100).map(|n| ReadThenCommit { n }).collect();
        ReadThenCommit::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let (pool, opened) = pool_of_one::<Connection>(&db.url());
        let worker = Worker::<Connection, _>::new(db.url(), ()).threads(8).with_pool(pool);
        let summary = worker.register::<ReadThenCommit>().run_until_empty().unwrap();
        assert_eq!(summary.counts.completed, 100);
        assert_eq!((summary.counts.retried, summary.counts.snoozed), (0, 0));
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 100);
        assert_eq!(opened.load(Ordering::Acquire), 1);
    }
);

conformance!(
    fn the_connection_of_a_panic_is_closed_and_not_returned(db: &mut Db) {
        let mut conn = prepare(db);
        let (pool, opened) = pool_of_one::<Connection>(&db.url());
        let (app, _remote) = app();
        let worker = || {
            let worker = Worker::<Connection, _>::new(db.url(), app.clone()).with_pool(pool.clone());
            worker.register::<Step>()
        };
        Step::now(1, Then::Commit).enqueue(&mut conn).unwrap();
        worker().run_until_empty().unwrap();
        assert_eq!(opened.load(Ordering::Acquire), 1);
        // Two attempts panic inside the commit, after their write.
        Step::now(2, Then::PanicUntil(3)).enqueue(&mut conn).unwrap();
        let summary = worker().run_until_empty().unwrap();
        assert_eq!((summary.counts.retried, summary.counts.completed), (2, 1));
        assert_eq!(opened.load(Ordering::Acquire), 3);
        assert_eq!(db.integer("SELECT count(*) FROM effects WHERE n = 2"), 1);
        let causes = db.texts("SELECT cause || ' ' || error FROM leasehold.job_errors ORDER BY attempt");
        let causes: Vec<_> = causes.into_iter().flatten().collect();
        assert_eq!(
            causes,
            ["panic panicked: attempt 1 panics", "panic panicked: attempt 2 panics"]
        );
    }
);

/// Leaves the connection in a transaction, one way or another.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, Job)]
#[job(kind = "untidy", max_attempts = 1)]
enum Untidy {
    OpenInRead,
    OpenInCommit,
    EndInCommit,
    EndAndOpenInCommit,
    FailInCommit,
    PanicInRead,
    PanicInCommit,
    PanicInNested,
}

impl<C: Effects> Handler<C> for Untidy {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        if let Self::OpenInRead = self {
            // PostgreSQL only warns, and SQLite refuses: both must leave the connection as it was.
            let _ = lease.read(|conn| conn.batch_execute("COMMIT; BEGIN"));
        }
        if let Self::PanicInRead = self {
            lease.read(|conn| -> QueryResult<()> {
                conn.batch_execute("SELECT 1")?;
                panic!("in a read")
            })?;
        }
        lease.commit(|tx| {
            match self {
                Self::OpenInRead | Self::PanicInRead => {}
                Self::PanicInCommit => panic!("in a commit, after {}", tx.note(1)?),
                Self::PanicInNested => {
                    tx.transaction::<(), Error, _>(|tx| panic!("in a nested one, after {}", tx.note(1)?))?
                }
                Self::OpenInCommit => tx.batch_execute("SAVEPOINT left_open")?,
                Self::EndInCommit => tx.batch_execute("ROLLBACK")?,
                Self::EndAndOpenInCommit => tx.batch_execute("ROLLBACK; BEGIN")?,
                Self::FailInCommit => tx.batch_execute("SELECT no_such_column FROM effects")?,
            }
            tx.note(1)?;
            Ok(())
        })
    }
}

conformance!(
    fn no_connection_is_returned_inside_a_transaction(db: &mut Db) {
        let mut conn = prepare(db);
        let (pool, _) = pool_of_one::<Connection>(&db.url());
        let untidy = [
            Untidy::OpenInRead,
            Untidy::OpenInCommit,
            Untidy::EndInCommit,
            Untidy::EndAndOpenInCommit,
            Untidy::FailInCommit,
            Untidy::PanicInRead,
            Untidy::PanicInCommit,
            Untidy::PanicInNested,
        ];
        for how in untidy {
            how.enqueue(&mut conn).unwrap();
            let worker = Worker::<Connection, _>::new(db.url(), ()).with_pool(pool.clone());
            let summary = worker.register::<Untidy>().run_until_empty().unwrap();
            assert_eq!(summary.counts.ended(), 1, "{how:?}");
            let mut returned = pool.get().unwrap();
            // SQLite refuses a BEGIN inside of a transaction; PostgreSQL shows such sessions.
            match Db::BACKEND {
                "sqlite" => returned.batch_execute("BEGIN IMMEDIATE; ROLLBACK").unwrap(),
                _ => {
                    let open = "SELECT count(*) FROM pg_stat_activity \
                        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
                    assert_eq!(db.integer(open), 0, "{how:?}");
                    returned.batch_execute("SELECT 1").unwrap();
                }
            }
        }
    }
);

conformance!(
    /// As one does that another runner shares, whose handlers are stuck with its connections.
    fn a_pool_that_others_have_used_up_costs_time_and_no_attempt(db: &mut Db) {
        let mut conn = prepare(db);
        let pool = Pool::builder()
            .max_size(1)
            .connection_timeout(Duration::from_millis(50))
            .connection_customizer(Box::new(Patient))
            .build_unchecked(ConnectionManager::<Connection>::new(db.url()));
        let mut taken = None;
        // On a busy machine the first connection takes longer than the pool waits for it.
        eventually(SOON, "the pool has its connection", || {
            taken = pool.get().ok();
            taken.is_some()
        });
        let id = Step::now(1, Then::Commit).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).threads(2).with_pool(pool);
        let running = worker.register::<Step>().start().unwrap();
        for _ in 0..2 {
            assert_eq!(remote.begun().attempt, 1);
            let error = remote.ended().result.unwrap_err();
            assert!(error.contains("no connection from the pool"), "{error}");
        }
        // What needs none of its connections runs all the while.
        Step::now(2, Then::Finish).enqueue(&mut conn).unwrap();
        eventually(SOON, "the other is completed", || running.counts().completed == 1);
        drop(taken);
        eventually(SOON, "it is completed", || running.counts().completed == 2);
        assert_eq!(job(&mut conn, id).attempt, 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 0);
    }
);
