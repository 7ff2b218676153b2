//! For how long a job keeps its unique key.

use std::time::Duration;

use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel, Edit, EditError};
use leasehold::testing::Runner;
use leasehold::{EnqueueOptions, Enqueued, Handler, Job, Unique};

use crate::pages::*;
use crate::support::*;

conformance!(
    fn a_job_keeps_its_key_in_the_states_that_say_so_and_in_no_other(db: &mut Db) {
        let mut conn = migrated(db);
        /// Enqueues, lets the job end as its text says, and enqueues again; whether the key was free.
        fn is_free_after<C: Backend, J: Job + Handler<C>>(conn: &mut C, new: fn(&str, &str) -> J, end: &str) -> bool {
            let page = format!("page {end}");
            let id = new(&page, end).enqueue(conn).unwrap().id();
            let runner = Runner::new(()).register::<J>();
            match end {
                "hard" => assert!(manage::cancel(conn, &default_schema(), id, Cancel::Hard, "ops", "").unwrap()),
                "by hand" => assert!(manage::discard(conn, &default_schema(), id, "ops", "").unwrap()),
                _ => assert!(runner.run_one(conn).unwrap()),
            }
            let job = inspect::job(conn, &default_schema(), id).unwrap().unwrap();
            let expected = match end {
                "discard" | "by hand" => State::Discarded,
                "cancel" | "hard" => State::Cancelled,
                _ => State::Completed,
            };
            assert_eq!(job.state, expected);
            let again = new(&page, "again").enqueue(conn).unwrap();
            assert!(again.is_new() || again.id() == id);
            again.is_new()
        }
        for (end, plain, kept, failed) in [
            ("finish", true, false, true),
            ("discard", true, true, false),
            ("cancel", true, false, true),
            ("hard", true, false, true),
            ("by hand", true, true, false),
        ] {
            assert_eq!(is_free_after(&mut conn, Plain::new, end), plain, "{end}");
            assert_eq!(is_free_after(&mut conn, Kept::new, end), kept, "{end}");
            assert_eq!(is_free_after(&mut conn, Failed::new, end), failed, "{end}");
            db.sql("DELETE FROM leasehold.jobs; DELETE FROM leasehold.unique_keys");
        }
    }
);

conformance!(
    /// The sweep, and the age of a job, end jobs of several kinds in one statement.
    fn a_job_that_maintenance_ends_keeps_its_key_in_the_states_that_say_so(db: &mut Db) {
        let mut conn = migrated(db);
        let once = EnqueueOptions::new().max_attempts(1);
        let mut running = |kept: bool, cancel: bool| {
            let page = if cancel { "cancelled" } else { "discarded" };
            let (id, kind) = match kept {
                true => (Kept::new(page, "").enqueue_with(&mut conn, &once).unwrap().id(), "kept"),
                false => (
                    Failed::new(page, "").enqueue_with(&mut conn, &once).unwrap().id(),
                    "failed",
                ),
            };
            claim_one(&mut conn, kind);
            if cancel {
                assert_eq!(conn.request_cancel(&default_schema(), &[id]).unwrap(), [id]);
            }
        };
        for kept in [true, false] {
            running(kept, true);
            running(kept, false);
        }
        db.set_time("leasehold.jobs", "lease_until", -1, "true");
        assert_eq!(conn.sweep(&default_schema(), 10).unwrap().len(), 4);
        assert!(!Kept::new("cancelled", "").enqueue(&mut conn).unwrap().is_new());
        assert!(Kept::new("discarded", "").enqueue(&mut conn).unwrap().is_new());
        assert!(Failed::new("cancelled", "").enqueue(&mut conn).unwrap().is_new());
        assert!(!Failed::new("discarded", "").enqueue(&mut conn).unwrap().is_new());

        let late = EnqueueOptions::new().expires(Duration::ZERO);
        Kept::new("late", "").enqueue_with(&mut conn, &late).unwrap();
        Failed::new("late", "").enqueue_with(&mut conn, &late).unwrap();
        assert_eq!(conn.discard_expired(&default_schema(), 10).unwrap().len(), 2);
        assert!(Kept::new("late", "").enqueue(&mut conn).unwrap().is_new());
        assert!(!Failed::new("late", "").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn a_job_that_is_not_there_any_more_keeps_no_key(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Kept::new("a", "").enqueue(&mut conn).unwrap().id();
        assert!(Runner::new(()).register::<Kept>().run_one(&mut conn).unwrap());
        assert!(!Kept::new("a", "").enqueue(&mut conn).unwrap().is_new());
        db.sql(&format!("DELETE FROM leasehold.finished_jobs WHERE id = {id}"));
        assert!(Kept::new("a", "").enqueue(&mut conn).unwrap().is_new());
        assert!(!Kept::new("a", "").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    fn within_a_period_there_is_one_job_even_if_it_has_completed(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Hourly::new("a", "").enqueue(&mut conn).unwrap().id();
        let left = from_now(db, "leasehold.unique_keys", "expires_at", &format!("job_id = {id}"));
        assert!(is_about(left, HOUR));
        let runner = Runner::new(()).register::<Hourly>();
        assert!(runner.run_one(&mut conn).unwrap());
        assert_eq!(
            Hourly::new("a", "").enqueue(&mut conn).unwrap(),
            Enqueued::Existing { id }
        );
        // A failed one does not keep others out.
        let failed = Hourly::new("b", "discard").enqueue(&mut conn).unwrap().id();
        assert!(runner.run_one(&mut conn).unwrap());
        assert_eq!(standing(db, failed), "discarded generation=1 attempt=1: told to");
        assert!(Hourly::new("b", "").enqueue(&mut conn).unwrap().is_new());
        // The period has passed, for one that ended and for one that still waits.
        db.set_time("leasehold.unique_keys", "expires_at", -1, "true");
        for page in ["a", "b"] {
            let next = Hourly::new(page, "").enqueue(&mut conn).unwrap();
            assert!(next.is_new());
            assert_eq!(
                Hourly::new(page, "").enqueue(&mut conn).unwrap(),
                Enqueued::Existing { id: next.id() }
            );
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 3);
    }
);

conformance!(
    fn an_enqueue_may_set_the_period_of_its_key(db: &mut Db) {
        let mut conn = migrated(db);
        let two_hours = EnqueueOptions::new().unique_within(2 * HOUR);
        for id in [
            Plain::new("a", "").enqueue_with(&mut conn, &two_hours).unwrap().id(),
            Hourly::new("a", "").enqueue_with(&mut conn, &two_hours).unwrap().id(),
        ] {
            let left = from_now(db, "leasehold.unique_keys", "expires_at", &format!("job_id = {id}"));
            assert!(is_about(left, 2 * HOUR));
        }
        assert!(Runner::new(()).register::<Plain>().run_one(&mut conn).unwrap());
        assert!(!Plain::new("a", "").enqueue(&mut conn).unwrap().is_new());
        let longest = EnqueueOptions::new().unique_within(Duration::MAX);
        assert!(Plain::new("b", "").enqueue_with(&mut conn, &longest).unwrap().is_new());
        assert!(!Plain::new("b", "").enqueue(&mut conn).unwrap().is_new());
        // Nothing for a kind without a key.
        assert!(note("a").enqueue_with(&mut conn, &longest).unwrap().is_new());
        assert!(note("a").enqueue_with(&mut conn, &longest).unwrap().is_new());
    }
);

conformance!(
    fn a_key_is_the_whole_kinds_or_each_queues_where_that_is_said(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Whole::new("a", "").enqueue(&mut conn).unwrap().id();
        let elsewhere = EnqueueOptions::new().queue("elsewhere");
        let other = Whole::new("b", "c").enqueue_with(&mut conn, &elsewhere).unwrap();
        assert_eq!(other, Enqueued::Existing { id });
        assert!(Plain::new("a", "").enqueue(&mut conn).unwrap().is_new());
        assert!(
            !Plain::new("a", "")
                .enqueue_with(&mut conn, &elsewhere)
                .unwrap()
                .is_new()
        );
        for options in [EnqueueOptions::new(), elsewhere] {
            assert!(
                PerQueue::new("a", "")
                    .enqueue_with(&mut conn, &options)
                    .unwrap()
                    .is_new()
            );
            assert!(
                !PerQueue::new("a", "x")
                    .enqueue_with(&mut conn, &options)
                    .unwrap()
                    .is_new()
            );
            assert!(
                PerQueue::new("b", "")
                    .enqueue_with(&mut conn, &options)
                    .unwrap()
                    .is_new()
            );
        }
        assert_eq!(Whole::UNIQUE, Unique::new());
        assert_eq!(PerQueue::UNIQUE, Unique::new().per_queue());
    }
);

conformance!(
    fn a_job_too_old_to_run_is_no_reason_to_drop_a_new_one(db: &mut Db) {
        let mut conn = migrated(db);
        let late = EnqueueOptions::new().expires(Duration::ZERO);
        let old = Plain::new("a", "old").enqueue_with(&mut conn, &late).unwrap().id();
        let new = Plain::new("a", "new").enqueue(&mut conn).unwrap();
        assert!(new.is_new());
        // Where the payload would be replaced, that of a job which runs no more does not count as replaced.
        let replaced = Replaced::new("a", "old").enqueue_with(&mut conn, &late).unwrap().id();
        assert!(Replaced::new("a", "new").enqueue(&mut conn).unwrap().is_new());
        // As one that has been discarded, it keeps the key if that is said.
        let kept = Failed::new("a", "old").enqueue_with(&mut conn, &late).unwrap().id();
        assert_eq!(
            Failed::new("a", "new").enqueue(&mut conn).unwrap(),
            Enqueued::Existing { id: kept }
        );
        // Their end leaves the keys with those that have them now.
        let discarded = conn.discard_expired(&default_schema(), 10).unwrap();
        let mut ids: Vec<i64> = discarded.iter().map(|job| job.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [old, replaced, kept]);
        assert_eq!(
            Plain::new("a", "newer").enqueue(&mut conn).unwrap(),
            Enqueued::Existing { id: new.id() }
        );
    }
);

conformance!(
    fn an_edit_knows_the_key_of_the_queue_that_the_job_is_in(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        for queue in ["default", "elsewhere"] {
            let options = EnqueueOptions::new().queue(queue);
            let id = PerQueue::new("a", "first")
                .enqueue_with(&mut conn, &options)
                .unwrap()
                .id();
            let edit = Edit::new().payload(&PerQueue::new("a", "second")).unwrap();
            assert_eq!(
                manage::edit(&mut conn, &schema, id, 0, &edit, "ops").unwrap(),
                1,
                "{queue}"
            );
            let other = Edit::new().payload(&PerQueue::new("b", "second")).unwrap();
            let refused = manage::edit(&mut conn, &schema, id, 1, &other, "ops").unwrap_err();
            assert!(matches!(refused, EditError::Identity { .. }), "{queue}: {refused}");
            let missing = manage::edit(&mut conn, &schema, 4711, 1, &other, "ops").unwrap_err();
            assert!(matches!(missing, EditError::Missing { id: 4711 }), "{queue}: {missing}");
        }
    }
);

conformance!(
    fn a_requeued_job_keeps_its_key_for_no_longer_than_its_period(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let hour = EnqueueOptions::new().unique_within(HOUR);
        let id = Failed::new("a", "discard").enqueue_with(&mut conn, &hour).unwrap().id();
        for _ in 0..2 {
            assert!(Runner::new(()).register::<Failed>().run_one(&mut conn).unwrap());
            let left = from_now(db, "leasehold.unique_keys", "expires_at", &format!("job_id = {id}"));
            assert!(is_about(left, HOUR));
            assert!(!Failed::new("a", "").enqueue(&mut conn).unwrap().is_new());
            manage::requeue(&mut conn, &schema, id, "ops").unwrap();
        }
        // After that period a requeue takes it as if it were new, until the job ends.
        assert!(Runner::new(()).register::<Failed>().run_one(&mut conn).unwrap());
        db.set_time("leasehold.unique_keys", "expires_at", -1, "true");
        manage::requeue(&mut conn, &schema, id, "ops").unwrap();
        assert!(!Failed::new("a", "").enqueue(&mut conn).unwrap().is_new());
        assert!(Runner::new(()).register::<Failed>().run_one(&mut conn).unwrap());
        assert!(Failed::new("a", "").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    /// It runs in the thread that sweeps, too.
    #[skip(
        sqlite,
        "one writer at a time: whoever is about to take a key has the whole database"
    )]
    fn a_purge_waits_for_nobody_who_is_about_to_take_a_key(db: &mut Db) {
        let (mut conn, mut other) = (migrated(db), db.connect());
        Hourly::new("a", "").enqueue(&mut conn).unwrap();
        assert!(Runner::new(()).register::<Hourly>().run_one(&mut conn).unwrap());
        db.set_time("leasehold.unique_keys", "expires_at", -1, "true");
        let next = other
            .transaction(|tx| {
                let next = Hourly::new("a", "").enqueue(tx).unwrap();
                conn.batch_execute("SET statement_timeout = '20s'").unwrap();
                assert_eq!(
                    manage::purge(&mut conn, &default_schema(), State::Completed, Duration::ZERO).unwrap(),
                    1
                );
                diesel::QueryResult::Ok(next)
            })
            .unwrap();
        assert!(next.is_new());
        assert_eq!(
            Hourly::new("a", "").enqueue(&mut conn).unwrap(),
            Enqueued::Existing { id: next.id() }
        );
    }
);

conformance!(
    fn a_requeued_job_keeps_its_key_in_the_states_that_its_enqueue_said(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let mut requeued = |conn: &mut Connection, id| {
            manage::requeue(conn, &schema, id, "ops").unwrap();
            db.text(&format!(
                "SELECT CAST(states AS text) FROM leasehold.unique_keys WHERE job_id = {id}"
            ))
        };
        let id = Plain::new("a", "discard").enqueue(&mut conn).unwrap().id();
        assert!(Runner::new(()).register::<Plain>().run_one(&mut conn).unwrap());
        assert_eq!(requeued(&mut conn, id).as_deref(), Some("3"));
        claim_one(&mut conn, "plain");
        assert!(!Plain::new("a", "next").enqueue(&mut conn).unwrap().is_new());

        // The newest payload always runs: beside the old one, when that cannot be changed any more.
        let id = Replaced::new("a", "discard").enqueue(&mut conn).unwrap().id();
        assert!(Runner::new(()).register::<Replaced>().run_one(&mut conn).unwrap());
        assert_eq!(requeued(&mut conn, id).as_deref(), Some("1"));
        claim_one(&mut conn, "replaced");
        assert!(Replaced::new("a", "newest").enqueue(&mut conn).unwrap().is_new());

        // Of completed ones the period is known no more.
        let id = Hourly::new("a", "discard").enqueue(&mut conn).unwrap().id();
        assert!(Runner::new(()).register::<Hourly>().run_one(&mut conn).unwrap());
        assert_eq!(requeued(&mut conn, id).as_deref(), Some("3"));
        claim_one(&mut conn, "hourly");
        assert!(!Hourly::new("a", "next").enqueue(&mut conn).unwrap().is_new());
    }
);
