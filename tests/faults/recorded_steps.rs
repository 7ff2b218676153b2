//! What breaks between the effect of a step and its record.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use leasehold::{Backend, Job, JobError};
use leasehold_tests::jobs::{Charge, SOON, Then, job, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};

use crate::PROGRAM;
use crate::probe::{migrated, probe, worker};

conformance!(
    fn a_process_killed_between_effect_and_record_has_the_effect_called_again_with_the_same_key(db: &mut Db) {
        let mut conn = prepare(db);
        let folder = tempfile::tempdir().unwrap();
        let charge = Charge {
            n: 1,
            calls: folder.path().join("calls"),
            then: Then::FailUntil(3),
        };
        let id = charge.enqueue(&mut conn).unwrap().id();
        let key = format!("{}/charge", job(&mut conn, id).idempotency_key);
        let mut first = WorkerProcess::start(PROGRAM, "serve", &db.url());
        first.says("begun 1 1");
        assert_eq!(charge.keys(), [key.as_str()]);
        first.kill();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.steps"), 0);

        let mut second = WorkerProcess::start(PROGRAM, "serve", &db.url());
        second.says("begun 1 2");
        assert_eq!(charge.keys(), [key.as_str(), key.as_str()]);
        second.go(1);
        second.says("ended 1 attempt 2 fails");
        // The third attempt does not call, so it waits for nobody.
        second.says("ended 1 committed");
        eventually(SOON, "it is completed", || {
            job(&mut conn, id).state.as_str() == "completed"
        });
        assert_eq!(charge.keys(), [key.as_str(), key.as_str()]);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.steps"), 1);
        // The first lease, the sweep, and then the one that recorded it.
        assert_eq!(db.integer("SELECT generation FROM leasehold.steps"), 3);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);

conformance!(
    fn a_record_is_not_left_in_a_transaction_that_a_connection_of_the_pool_brought_along(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE written (id integer)");
        probe("").enqueue(&mut conn).unwrap();
        let pool = Pool::builder()
            .max_size(1)
            .build(ConnectionManager::<Connection>::new(db.url()))
            .unwrap();
        // Somebody forgot the COMMIT, while the effect was under way. On SQLite a write would keep everybody else from writing.
        let left = if Db::BACKEND == "sqlite" {
            "SELECT 1"
        } else {
            "INSERT INTO written VALUES (99)"
        };
        let others = pool.clone();
        let worker = worker(db, move |_, mut lease| {
            lease.step("charge", |_| {
                others.get()?.batch_execute(&format!("BEGIN; {left}"))?;
                Ok::<_, JobError>(1)
            })?;
            Err(JobError::discard("enough"))
        });
        let running = worker.with_pool(pool).start().unwrap();
        eventually(SOON, "the job has ended", || running.counts().discarded == 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.steps"), 1);
        assert_eq!(db.integer("SELECT count(*) FROM written"), 0);
    }
);

/// A host's pool, on PostgreSQL with a short patience, on SQLite with none.
#[derive(Debug)]
struct Impatient(&'static str);

impl<C: Backend> CustomizeConnection<C, diesel::r2d2::Error> for Impatient {
    fn on_acquire(&self, conn: &mut C) -> Result<(), diesel::r2d2::Error> {
        conn.batch_execute(self.0).map_err(diesel::r2d2::Error::QueryError)
    }
}

conformance!(
    fn a_lock_that_outlasts_a_pools_patience_does_not_cost_the_record(db: &mut Db) {
        let mut conn = migrated(db);
        let id = probe("").enqueue(&mut conn).unwrap().id();
        let (patience, lock) = match Db::BACKEND {
            "sqlite" => ("PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE".to_owned()),
            _ => {
                let lock = format!("BEGIN; SELECT id FROM leasehold.jobs WHERE id = {id} FOR UPDATE");
                ("SET lock_timeout = '20ms'", lock)
            }
        };
        let pool = Pool::builder()
            .max_size(1)
            .connection_customizer(Box::new(Impatient(patience)))
            .build(ConnectionManager::<Connection>::new(db.url()))
            .unwrap();
        let (locker, calls) = (Mutex::new(Some(db.connect())), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&calls);
        let worker = worker(db, move |_, mut lease| {
            lease.step("charge", |_| {
                counted.fetch_add(1, Ordering::AcqRel);
                if let Some(mut locker) = locker.lock().unwrap().take() {
                    locker.batch_execute(&lock)?;
                    // Longer than some tries that follow each other at once.
                    thread::spawn(move || {
                        thread::sleep(Duration::from_secs(1));
                        drop(locker);
                    });
                }
                Ok::<_, JobError>(1)
            })?;
            Err(JobError::discard("enough"))
        });
        let running = worker.with_pool(pool).start().unwrap();
        eventually(SOON, "the job has ended", || running.counts().discarded == 1);
        assert_eq!((calls.load(Ordering::Acquire), running.counts().retried), (1, 0));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.steps"), 1);
    }
);
