//! Unique keys: one job has each while it has not ended.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use diesel::result::Error;
use leasehold::inspect;
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Handler, Job, JobError, LeaseGuard, Outcome};
use leasehold_tests::eventually;
use serde::{Deserialize, Serialize};

use crate::support::*;

/// One job for each account at a time; its handler is the runner's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "bill", unique(by = "account"), backoff = "fixed(1h)", max_attempts = 1)]
pub(crate) struct Bill {
    account: String,
    amount: i64,
}

pub(crate) fn bill(account: &str, amount: i64) -> Bill {
    Bill {
        account: account.to_owned(),
        amount,
    }
}

pub(crate) type Run<C> = for<'j> fn(LeaseGuard<'j, C>) -> Outcome<'j>;

impl<C: Backend> Handler<C, Run<C>> for Bill {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &Run<C>) -> Outcome<'j> {
        app(lease)
    }
}

pub(crate) fn run_bills<C: Backend>(conn: &mut C, run: Run<C>) {
    leasehold::testing::Runner::<C, _>::new(run)
        .register::<Bill>()
        .drain(conn)
        .unwrap();
}

conformance!(
    fn one_job_of_a_kind_has_a_unique_key_while_it_has_not_ended(db: &mut Db) {
        #[derive(Serialize, Deserialize, Job)]
        #[job(kind = "remind", unique(by = "account"))]
        struct Remind {
            account: String,
        }
        let mut conn = migrated(db);
        let first = bill("a", 1).enqueue(&mut conn).unwrap();
        assert!(first.is_new());
        // Another payload with the same key, and one with a key as long as it likes.
        assert_eq!(
            bill("a", 2).enqueue(&mut conn).unwrap(),
            Enqueued::Existing { id: first.id() }
        );
        assert!(bill("b", 1).enqueue(&mut conn).unwrap().is_new());
        let long = "long".repeat(5000);
        assert!(bill(&long, 1).enqueue(&mut conn).unwrap().is_new());
        assert!(!bill(&long, 1).enqueue(&mut conn).unwrap().is_new());
        let other_kind = Remind {
            account: "a".to_owned(),
        };
        assert!(other_kind.enqueue(&mut conn).unwrap().is_new());
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 4);
        let stored = format!(
            "SELECT CAST(payload AS text) FROM leasehold.jobs WHERE id = {}",
            first.id()
        );
        assert_eq!(db.text(&stored).unwrap(), r#"{"account":"a","amount":1}"#);
    }
);

/// Ends the one bill in some way, and says what became of it.
type Way<C> = (&'static str, fn(&mut C));

conformance!(
    fn every_end_of_a_job_frees_its_unique_key(db: &mut Db) {
        let mut conn = migrated(db);
        let ways: [Way<Connection>; 9] = [
            ("completed", |conn| run_bills(conn, |lease| lease.commit(|_| Ok(())))),
            ("completed", |conn| {
                run_bills(conn, |lease| lease.strict().commit(|_| Ok(())))
            }),
            ("completed", |conn| run_bills(conn, |lease| lease.finish())),
            ("cancelled", |conn| run_bills(conn, |lease| lease.cancel("paid"))),
            ("discarded", |conn| {
                run_bills(conn, |_| Err(JobError::discard("no such account")))
            }),
            ("discarded", |conn| {
                run_bills(conn, |_| Err(JobError::retry("the last attempt")))
            }),
            ("cancelled", |conn| {
                let id = only_bill(conn);
                assert!(manage::cancel(conn, &default_schema(), id, Cancel::Hard, "ops", "gone").unwrap());
            }),
            ("cancelled", |conn| {
                let (rows, _) = claim_served(conn, &[served("default", "bill", 1)], 1);
                assert!(manage::cancel(conn, &default_schema(), rows[0].id, Cancel::Hard, "ops", "gone").unwrap());
            }),
            ("discarded", |conn| {
                let (rows, _) = claim_served(conn, &[served("default", "bill", 1)], 1);
                assert_eq!(take_over(conn, rows[0].id), None);
            }),
        ];
        for (number, (end, way)) in ways.into_iter().enumerate() {
            let id = bill("a", 1).enqueue(&mut conn).unwrap().id();
            let other = bill(&number.to_string(), 1);
            other
                .enqueue_with(&mut conn, &EnqueueOptions::new().queue("elsewhere"))
                .unwrap();
            way(&mut conn);
            let state = inspect::job(&mut conn, &default_schema(), id).unwrap().unwrap().state;
            assert_eq!(state.as_str(), end, "way {number}");
            let again = bill("a", 1).enqueue(&mut conn).unwrap();
            assert!(again.is_new(), "way {number} keeps the key");
            assert!(
                !other.enqueue(&mut conn).unwrap().is_new(),
                "way {number} frees another's"
            );
            assert!(manage::cancel(&mut conn, &default_schema(), again.id(), Cancel::Hard, "ops", "next").unwrap());
        }
    }
);

fn only_bill<C: Backend>(conn: &mut C) -> i64 {
    let bills = conn.open_jobs(&default_schema(), "bill").unwrap();
    bills.iter().find(|job| job.queue == "default").unwrap().id
}

conformance!(
    fn a_job_that_runs_again_keeps_its_unique_key(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new().max_attempts(9);
        let id = bill("a", 1).enqueue_with(&mut conn, &options).unwrap().id();
        let ways: [fn(&mut Connection); 5] = [
            |conn| run_bills(conn, |_| Err(JobError::retry("busy"))),
            |conn| run_bills(conn, |lease| lease.snooze(Duration::from_secs(60))),
            |conn| {
                let (rows, lease_token) = claim_served(conn, &[served("default", "bill", 1)], 1);
                let fence = fence_of(&rows[0], lease_token);
                assert_eq!(conn.release(&default_schema(), &[fence]).unwrap(), [rows[0].id]);
            },
            |conn| {
                let (rows, _) = claim_served(conn, &[served("default", "bill", 1)], 1);
                take_over(conn, rows[0].id);
            },
            |conn| {
                let (rows, lease_token) = claim_served(conn, &[served("default", "bill", 1)], 1);
                let mut fence = fence_of(&rows[0], lease_token);
                fence.generation += 1;
                assert!(conn.finish(&default_schema(), &[fence]).unwrap().is_empty());
            },
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let before = db.integer("SELECT generation FROM leasehold.jobs");
            way(&mut conn);
            assert!(
                db.integer("SELECT generation FROM leasehold.jobs") > before,
                "way {number}"
            );
            assert_eq!(
                bill("a", 2).enqueue(&mut conn).unwrap(),
                Enqueued::Existing { id },
                "way {number}"
            );
            conn.move_run_at(&default_schema(), id, 0).unwrap();
        }
    }
);

conformance!(
    fn equal_jobs_in_one_call_are_one_job(db: &mut Db) {
        let mut conn = migrated(db);
        let held = bill("held", 0).enqueue(&mut conn).unwrap().id();
        let bills = [
            bill("a", 1),
            bill("held", 1),
            bill("b", 1),
            bill("a", 2),
            bill("held", 2),
        ];
        let enqueued = Job::enqueue_all(&bills, &mut conn, &EnqueueOptions::new()).unwrap();
        assert!(enqueued[0].is_new() && enqueued[2].is_new());
        assert_eq!(enqueued[3], Enqueued::Existing { id: enqueued[0].id() });
        assert_eq!([enqueued[1], enqueued[4]], [Enqueued::Existing { id: held }; 2]);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 3);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.unique_keys"), 3);

        // Further apart than one statement reaches.
        let mut many: Vec<Bill> = (0..1200).map(|number| bill(&format!("many {number}"), 1)).collect();
        many.push(bill("many 3", 2));
        let enqueued = Job::enqueue_all(&many, &mut conn, &EnqueueOptions::new()).unwrap();
        assert_eq!(enqueued.iter().filter(|answer| answer.is_new()).count(), 1200);
        assert_eq!(enqueued[1200], Enqueued::Existing { id: enqueued[3].id() });
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1203);
    }
);

/// Two transactions want the same key: the second one waits, and what the first one does decides.
fn race<D: TestDb>(db: &mut D, first_commits: bool) -> (i64, Enqueued) {
    let (mut first, mut second) = (db.connect(), db.connect());
    let mut id = 0;
    let (started, is_started) = mpsc::channel();
    let mut other = None;
    let ended = first.transaction(|tx| {
        id = bill("a", 1).enqueue(tx)?.id();
        other = Some(thread::spawn(move || {
            started.send(()).unwrap();
            second.transaction(|tx| bill("a", 2).enqueue(tx))
        }));
        is_started.recv().unwrap();
        // SQLite shows nobody who waits for the write lock; there, the second may come later still.
        if D::BACKEND == "postgres" {
            eventually(Duration::from_secs(20), "the second one waits for the key", || {
                db.integer(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
                ) == 1
            });
        }
        match first_commits {
            true => Ok(()),
            false => Err(EnqueueError::Database(Error::RollbackTransaction)),
        }
    });
    assert_eq!(ended.is_ok(), first_commits);
    (id, other.unwrap().join().unwrap().unwrap())
}

conformance!(
    fn whoever_waits_for_a_key_gets_the_job_that_was_committed(db: &mut Db) {
        migrated(db);
        let (first, second) = race(db, true);
        assert_eq!(second, Enqueued::Existing { id: first });
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs"), first);
    }
);

conformance!(
    fn whoever_waits_for_a_key_gets_it_when_the_other_rolls_back(db: &mut Db) {
        migrated(db);
        let (_, second) = race(db, false);
        assert!(second.is_new());
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs"), second.id());
        assert_eq!(db.integer("SELECT job_id FROM leasehold.unique_keys"), second.id());
    }
);

conformance!(
    #[skip(postgres, "its writers wait for each other's keys alone")]
    fn an_enqueue_beside_a_transaction_that_keeps_writing_is_an_error(db: &mut Db) {
        migrated(db);
        let (mut writer, mut other) = (db.connect(), db.connect());
        other.batch_execute("PRAGMA busy_timeout = 20").unwrap();
        writer
            .transaction(|tx| {
                write(tx, 1)?;
                let busy = bill("a", 1).enqueue(&mut other);
                assert!(matches!(busy, Err(EnqueueError::Database(Error::DatabaseError(..)))));
                Ok::<_, Error>(())
            })
            .unwrap();
        assert!(bill("a", 1).enqueue(&mut other).unwrap().is_new());
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
    }
);
