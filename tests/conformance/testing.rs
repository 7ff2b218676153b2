//! `leasehold::testing`: jobs run on a test's own connection, inside a transaction that is never committed.

use std::time::Duration;

use leasehold::error::RegistryError;
use leasehold::testing::{self, Runner, RunnerError};
use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Outcome, assert_enqueued};
use serde::{Deserialize, Serialize};

use crate::support::*;

/// Welcomes somebody, and has a reminder follow.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "welcome", backoff = "fixed(0s)", max_attempts = 3)]
struct Welcome {
    id: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "reminder", queue = "slow")]
struct Reminder {
    of: i64,
    polite: bool,
}

impl<C: Backend> Handler<C> for Welcome {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        lease.commit(|tx| {
            write(tx, self.id)?;
            let reminder = Reminder {
                of: self.id,
                polite: true,
            };
            reminder.enqueue_with(tx, &EnqueueOptions::new().delay(Duration::from_secs(3600)))?;
            Ok(())
        })
    }
}

impl<C: Backend> Handler<C> for Reminder {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        lease.read(|conn| conn.batch_execute("SELECT * FROM written"))?;
        lease.finish()
    }
}

conformance!(
    fn a_whole_life_fits_into_a_test_transaction_and_leaves_nothing(db: &mut Db) {
        migrated(db);
        let mut conn = db.connect();
        conn.begin_test_transaction().unwrap();
        Welcome { id: 1 }.enqueue(&mut conn).unwrap();
        assert_enqueued!(&mut conn, Welcome, id: 1);
        let runner = Runner::new(()).register::<Welcome>().register::<Reminder>();
        let counts = runner.drain(&mut conn).unwrap();
        assert_eq!((counts.completed, counts.ended()), (1, 1));
        assert_enqueued!(&mut conn, Reminder, of: 1, polite: true);
        let reminders = conn.open_jobs(&default_schema(), "reminder").unwrap();
        assert!(!runner.run_one(&mut conn).unwrap(), "the reminder is not due");
        assert!(testing::run_after(&mut conn, &default_schema(), reminders[0].id, Duration::ZERO).unwrap());
        assert!(runner.run_one(&mut conn).unwrap());
        assert!(testing::enqueued::<Reminder>(&mut conn).unwrap().is_empty());
        // A violated constraint is a failed attempt, and the transaction goes on. It is due again at once.
        Welcome { id: 1 }.enqueue(&mut conn).unwrap();
        let counts = runner.drain(&mut conn).unwrap();
        assert_eq!((counts.retried, counts.discarded, counts.completed), (2, 1, 0));
        drop(conn);
        assert!(written(db).is_empty());
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs"), 0);
    }
);

conformance!(
    fn outside_of_a_transaction_a_runner_commits_as_a_worker_does(db: &mut Db) {
        let mut conn = migrated(db);
        Welcome { id: 1 }.enqueue(&mut conn).unwrap();
        Welcome { id: 2 }.enqueue(&mut conn).unwrap();
        let runner = Runner::new(()).register::<Welcome>();
        assert!(runner.run_one(&mut conn).unwrap());
        assert_eq!(written(db), [1]);
        assert!(runner.run_one(&mut conn).unwrap());
        assert!(!runner.run_one(&mut conn).unwrap());
        assert_eq!(written(db), [1, 2]);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'"),
            2
        );
    }
);

conformance!(
    fn a_runner_runs_scheduled_jobs_that_have_come_due(db: &mut Db) {
        let mut conn = migrated(db);
        let later = EnqueueOptions::new().delay(Duration::from_secs(3600));
        note("later").enqueue_with(&mut conn, &later).unwrap();
        assert_eq!(run(&mut conn, |_, lease| lease.finish()).ended(), 0);
        db.set_time("leasehold.jobs", "run_at", -1, "state = 'ready'");
        assert_eq!(run(&mut conn, |_, lease| lease.finish()).completed, 1);
    }
);

conformance!(
    fn a_late_commit_in_a_test_transaction_is_refused_too(db: &mut Db) {
        let mut conn = migrated(db);
        conn.begin_test_transaction().unwrap();
        let counts = {
            note("late").enqueue(&mut conn).unwrap();
            run(&mut conn, |_, mut lease| {
                let id = lease.job_id();
                let taken = lease.read(|conn| {
                    // A read cannot take it away.
                    testing::expire_lease(conn, &default_schema(), id)
                });
                assert!(taken.is_err());
                lease.commit(|tx| {
                    write(tx, 1)?;
                    assert!(testing::expire_lease(tx, &default_schema(), id)?);
                    assert_eq!(tx.sweep(&default_schema(), 1)?.len(), 1);
                    Ok(())
                })
            })
        };
        // The sweep was part of the transaction that was rolled back, so the job is still under its lease.
        assert_eq!((counts.lost, counts.completed), (0, 0));
        assert_eq!(counts.retried, 1);
        assert!(conn.batch_execute("INSERT INTO written VALUES (1)").is_ok());
    }
);

conformance!(
    fn moving_the_times_of_a_job_tells_whether_there_was_one(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = note("moved").enqueue(&mut conn).unwrap().id();
        let hour = Duration::from_secs(3600);
        assert!(testing::run_after(&mut conn, &schema, id, hour).unwrap());
        assert!(is_about(
            from_now(db, "leasehold.jobs", "run_at", "state = 'ready'"),
            hour
        ));
        assert!(claim_notes(&mut conn).is_empty());
        assert!(!testing::expire_lease(&mut conn, &schema, id).unwrap());
        assert!(testing::run_after(&mut conn, &schema, id, Duration::ZERO).unwrap());
        let fence = claim_notes(&mut conn)[0];
        assert!(!testing::run_after(&mut conn, &schema, id, hour).unwrap());
        assert!(conn.sweep(&schema, 1).unwrap().is_empty());
        assert!(testing::expire_lease(&mut conn, &schema, id).unwrap());
        assert_eq!(conn.sweep(&schema, 1).unwrap()[0].generation, fence.generation + 1);
        assert!(!testing::run_after(&mut conn, &schema, id + 1, hour).unwrap());
    }
);

conformance!(
    fn what_is_enqueued_is_told_oldest_first_and_only_what_has_not_ended(db: &mut Db) {
        let mut conn = migrated(db);
        note("ended").enqueue(&mut conn).unwrap();
        run(&mut conn, |_, lease| lease.finish());
        note("running").enqueue(&mut conn).unwrap();
        claim_notes(&mut conn);
        note("elsewhere")
            .enqueue_with(&mut conn, &EnqueueOptions::new().queue("other").priority(9))
            .unwrap();
        Reminder { of: 1, polite: false }.enqueue(&mut conn).unwrap();
        assert_eq!(
            testing::enqueued::<Note>(&mut conn).unwrap(),
            [note("running"), note("elsewhere")]
        );
        assert_enqueued!(&mut conn, Note);
        assert_enqueued!(&mut conn, Note, text: "elsewhere");
        assert_enqueued!(&mut conn, Reminder, polite: false);
    }
);

conformance!(
    fn a_failed_assertion_says_what_is_missing(db: &mut Db) {
        let mut conn = migrated(db);
        Reminder { of: 1, polite: false }.enqueue(&mut conn).unwrap();
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_enqueued!(&mut conn, Reminder, of: 1, polite: true);
        }));
        let text = failed.unwrap_err().downcast::<std::string::String>().unwrap();
        assert_eq!(
            *text,
            "no job `reminder` with of: 1, polite: true; there are 1 of this kind"
        );
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_enqueued!(&mut conn, Note)));
        let text = failed.unwrap_err().downcast::<std::string::String>().unwrap();
        assert_eq!(*text, "no job `note` with any fields; there are 0 of this kind");
    }
);

conformance!(
    fn a_runner_serves_the_queues_of_its_kinds_or_those_it_is_told(db: &mut Db) {
        let mut conn = migrated(db);
        Reminder { of: 1, polite: true }.enqueue(&mut conn).unwrap();
        let elsewhere = EnqueueOptions::new().queue("other");
        Reminder { of: 2, polite: true }
            .enqueue_with(&mut conn, &elsewhere)
            .unwrap();
        let runner = || Runner::<Connection, ()>::new(()).register::<Reminder>();
        assert_eq!(runner().drain(&mut conn).unwrap().completed, 1);
        assert_enqueued!(&mut conn, Reminder, of: 2);
        assert_eq!(
            runner()
                .queues(["nothing", "other"])
                .drain(&mut conn)
                .unwrap()
                .completed,
            1
        );
    }
);

conformance!(
    fn mistakes_in_what_is_registered_are_told(db: &mut Db) {
        let mut conn = migrated(db);
        let runner = || Runner::<Connection, ()>::new(());
        let twice = runner().register::<Reminder>().register::<Reminder>().drain(&mut conn);
        assert!(matches!(
            twice,
            Err(RunnerError::Registry(RegistryError::Twice("reminder")))
        ));
        let nothing = runner().run_one(&mut conn);
        assert!(matches!(nothing, Err(RunnerError::Registry(RegistryError::Nothing))));
        db.sql("DROP TABLE leasehold.jobs");
        let database = runner().register::<Reminder>().run_one(&mut conn);
        assert!(matches!(database, Err(RunnerError::Database(_))));
    }
);
