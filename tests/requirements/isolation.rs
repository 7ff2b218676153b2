//! Isolation levels above the queue's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use leasehold::__private::Fence;
use leasehold::__private::*;
use leasehold::{Backend, Handler, Isolation, Job, LeaseGuard, Outcome, Schema, Worker};
use leasehold_tests::{TestDb, conformance};

#[cfg(feature = "postgres")]
use crate::jobs::claim_statement;
use crate::jobs::{begin_commit, claim, control, enqueue, migrated, roll_back, standing};
#[cfg(feature = "postgres")]
use crate::row_locks::accounts;
#[cfg(feature = "postgres")]
use crate::session::Session;

const LEVELS: [(Isolation, &str); 2] = [
    (Isolation::RepeatableRead, "REPEATABLE READ"),
    (Isolation::Serializable, "SERIALIZABLE"),
];

fn is_serialization_failure(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _))
}

conformance! {
    #[skip(sqlite, "SQLite has one isolation level")]
    fn s0_29_a_claim_fails_to_serialize_when_its_candidate_has_changed(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        for (_, level) in LEVELS {
            let mut a = Session::of(db);
            a.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM leasehold.jobs"));
            db.sql("UPDATE leasehold.jobs SET priority = priority");
            let error = claim_statement(&mut a.conn, 1).unwrap_err();
            assert!(is_serialization_failure(&error), "{level}: {error:?}");
            assert_eq!(standing(db, id), "ready/0", "{level}");
        }
        // That is why the queue's own connections do not follow the database's default.
        db.sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable',
            current_database()); END $$");
        let level = |conn| Session::new(conn).text("SELECT current_setting('transaction_isolation')").unwrap();
        assert_eq!(level(db.connect()), "serializable");
        assert_eq!(level(control(db)), "read committed");
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one isolation level")]
    fn s0_29_a_completion_after_its_own_heartbeat_fails_to_serialize_and_is_not_lost(db: &mut Db) {
        let mut conn = migrated(db);
        for (isolation, level) in LEVELS {
            enqueue(&mut conn, 1);
            let fence = claim(&mut conn);
            let mut z = Session::of(db);
            begin_commit(&mut z.conn, Some(isolation));
            z.run("SELECT FROM business");
            assert!(conn.heartbeat(&Schema::default(), &[fence]).unwrap()[0].renewed);
            let error = z.conn.complete(&Schema::default(), &fence, false).unwrap_err();
            assert!(is_serialization_failure(&error), "{level}: {error:?}");
            roll_back(&mut z.conn);
            // Still its owner: the same commit may be tried again.
            begin_commit(&mut z.conn, Some(isolation));
            assert_eq!(z.conn.complete(&Schema::default(), &fence, false), Ok(Completion::Completed), "{level}");
            roll_back(&mut z.conn);
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
}

/// Commits at a level at which a heartbeat of its own, between a read and the completion, is a conflict.
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(kind = "test", max_attempts = 5)]
struct Conflicting {}

struct Levels {
    url: String,
    isolation: Option<Isolation>,
    runs: AtomicU32,
    conflicts: u32,
    told: crossbeam_channel::Sender<Result<(), bool>>,
}

impl<C: Backend> Handler<C, Arc<Levels>> for Conflicting {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &Arc<Levels>) -> Outcome<'j> {
        let id = lease.job_id();
        let ended = {
            let writes = |tx: &mut C| {
                tx.batch_execute("INSERT INTO business VALUES ('handler')")?;
                if app.runs.fetch_add(1, Ordering::SeqCst) < app.conflicts {
                    beat(&mut C::connect(&app.url, &ConnectionSettings::default())?, id);
                }
                Ok(())
            };
            match app.isolation {
                Some(isolation) => lease.commit_retrying(isolation, writes),
                None => lease.commit(writes),
            }
        };
        let told = ended.as_ref().map(|_| ()).map_err(leasehold::JobError::is_lost);
        app.told.send(told).unwrap();
        ended
    }
}

/// The heartbeat of whoever has the job.
fn beat<C: Backend>(conn: &mut C, id: i64) {
    let row = conn.ownership(&Schema::default(), id).unwrap().unwrap();
    let lease_token = row.lease_token.unwrap().parse().unwrap();
    let fence = Fence {
        id,
        generation: row.generation,
        lease_token,
    };
    assert!(conn.heartbeat(&Schema::default(), &[fence]).unwrap()[0].renewed);
}

/// Runs the job; how the handler's first commit ended, and how often its closure ran by then.
#[cfg(feature = "postgres")]
fn first_commit(url: String, isolation: Option<Isolation>, conflicts: u32) -> (Result<(), bool>, u32) {
    let (told, hears) = crossbeam_channel::bounded(10);
    let app = Levels {
        url: url.clone(),
        isolation,
        runs: AtomicU32::new(0),
        conflicts,
        told,
    };
    let app = Arc::new(app);
    let running = Worker::<PgConnection, _>::new(url, Arc::clone(&app))
        .threads(1)
        .register::<Conflicting>()
        .start()
        .unwrap();
    let ended = hears.recv_timeout(crate::jobs::SOON).unwrap();
    let runs = app.runs.load(Ordering::SeqCst);
    running.shutdown(crate::jobs::SOON);
    (ended, runs)
}

conformance! {
    #[skip(sqlite, "SQLite has one isolation level")]
    fn s0_29_a_commit_that_may_run_again_is_retried_and_one_that_may_not_is_a_failed_attempt(db: &mut Db) {
        let mut conn = migrated(db);
        for (isolation, level) in LEVELS {
            enqueue(&mut conn, 1);
            assert_eq!(first_commit(db.url(), Some(isolation), 2), (Ok(()), 3), "{level}");
        }
        assert_eq!(db.integer("SELECT count(*) FROM business"), 2);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 0);

        db.sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable',
            current_database()); END $$");
        let id = enqueue(&mut conn, 1)[0];
        let (ended, _) = first_commit(db.url(), None, 1);
        assert_eq!(ended, Err(false), "an error, and not a lost lease");
        assert_eq!(db.texts(&format!("SELECT cause FROM leasehold.job_errors WHERE job_id = {id}")), [Some("error".to_owned())]);
        assert!(standing(db, id).starts_with("ready/"));
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one isolation level")]
    fn s2_14_write_skew_is_found_at_serializable_and_not_at_repeatable_read(db: &mut Db) {
        accounts(db);
        for (_, level) in LEVELS {
            db.sql("UPDATE accounts SET balance = 1000");
            let (mut a, mut b) = (Session::of(db), Session::of(db));
            for (session, id) in [(&mut a, 1), (&mut b, 2)] {
                session.run(&format!("BEGIN ISOLATION LEVEL {level}"));
                assert_eq!(session.integer("SELECT sum(balance)::bigint FROM accounts"), 2000);
                // As long as the other has something.
                session.run(&format!("UPDATE accounts SET balance = 0 WHERE id = {id}"));
            }
            a.run("COMMIT");
            let b = b.conn.batch_execute("COMMIT");
            let sum = db.integer("SELECT sum(balance) FROM accounts");
            match level {
                "SERIALIZABLE" => assert!(is_serialization_failure(&b.unwrap_err()) && sum == 1000),
                _ => assert!(b.is_ok() && sum == 0),
            }
        }
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one isolation level")]
    fn s2_15_the_second_writer_at_repeatable_read_fails_to_serialize(db: &mut Db) {
        accounts(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        b.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts");
        a.run("UPDATE accounts SET balance = 900 WHERE id = 1");
        assert_eq!(b.sqlstate("UPDATE accounts SET balance = 900 WHERE id = 1"), "40001");
        let error = b.conn.batch_execute("UPDATE accounts SET balance = 900 WHERE id = 1").unwrap_err();
        assert!(is_serialization_failure(&error), "{error:?}");
    }
}
