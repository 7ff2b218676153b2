//! What an enqueue does whose unique key another job has, and for how long that job keeps it.

use std::time::Duration;

use diesel::result::Error;
use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel};
use leasehold::testing::Runner;
use leasehold::{
    EnqueueError, EnqueueOptions, Enqueued, Handler, Job, JobError, LeaseGuard, OnConflict, Outcome, Unique,
};
use serde::{Deserialize, Serialize};

use crate::support::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A job type with two fields, unique by the first one in some way.
macro_rules! pages {
    ($($name:ident $kind:literal ($($unique:tt)*);)+) => { $(
        #[derive(Debug, Serialize, Deserialize, Job)]
        #[job(kind = $kind, backoff = "fixed(1h)", unique($($unique)*))]
        struct $name {
            page: String,
            text: String,
        }

        impl $name {
            fn new(page: &str, text: &str) -> Self {
                Self { page: page.to_owned(), text: text.to_owned() }
            }
        }

        impl<C: Backend> Handler<C> for $name {
            fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
                match self.text.as_str() {
                    "fail" => Err(JobError::retry("told to")),
                    "discard" => Err(JobError::discard("told to")),
                    "cancel" => lease.cancel("told to"),
                    _ => lease.finish(),
                }
            }
        }
    )+ };
}
pages! {
    Plain "plain" (by = "page");
    Whole "whole" ();
    PerQueue "per-queue" (by = "page", per_queue);
    Replaced "replaced" (by = "page", on_conflict = "replace");
    Rescheduled "rescheduled" (by = "page", on_conflict = "reschedule");
    Both "both" (by = "page", on_conflict = "replace, reschedule");
    Rejected "rejected" (by = "page", on_conflict = "reject");
    WhileOpen "while-open" (by = "page", states = "ready, running", on_conflict = "replace");
    Waiting "waiting" (by = "page", states = "ready");
    Hourly "hourly" (by = "page", within = "1h");
    Kept "kept" (by = "page", states = "ready, completed, cancelled");
    Failed "failed" (by = "page", states = "ready, discarded");
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "replaced", version = 2, unique(by = "page", on_conflict = "replace"))]
struct Newer {
    page: String,
}

/// Claims the one job of the kind.
#[track_caller]
fn claim_one<C: Backend>(conn: &mut C, kind: &str) -> leasehold::__private::Fence {
    let (rows, token) = claim_served(conn, &[served("default", kind, 1)], 1);
    fence_of(&rows[0], token)
}

/// Text, version, generation and whether it is scheduled or blocked, of the ready jobs.
fn ready<D: TestDb>(db: &mut D) -> Vec<String> {
    let text = "SELECT CAST(payload AS text) || ' v' || version || ' generation=' || generation \
        || CASE WHEN CAST(scheduled AS integer) = 1 THEN ' scheduled' ELSE '' END || coalesce(' by ' || blocked_by, '') \
        FROM leasehold.jobs WHERE state = 'ready' ORDER BY id";
    db.texts(text).into_iter().flatten().collect()
}

conformance!(
    fn a_ready_job_is_given_the_new_payload_and_version(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Replaced::new("a", "first").enqueue(&mut conn).unwrap().id();
        let later = EnqueueOptions::new().delay(HOUR);
        let again = Replaced::new("a", "second").enqueue_with(&mut conn, &later).unwrap();
        assert_eq!(again, Enqueued::Updated { id });
        assert_eq!((again.id(), again.is_new()), (id, false));
        // Its run time is the old one: it is still due.
        assert_eq!(ready(db), [r#"{"page":"a","text":"second"} v1 generation=1"#]);
        let newer = Newer { page: "a".to_owned() };
        assert_eq!(newer.enqueue(&mut conn).unwrap(), Enqueued::Updated { id });
        assert_eq!(ready(db), [r#"{"page":"a"} v2 generation=2"#]);
        // Nothing of the three is left but that one.
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.unique_keys"), 1);
        assert!(
            claim_served(&mut conn, &[served("default", "replaced", 1)], 1)
                .0
                .is_empty()
        );
        assert_eq!(
            claim_served(&mut conn, &[served("default", "replaced", 2)], 1).0[0].generation,
            3
        );
    }
);

conformance!(
    fn a_running_job_is_not_changed_and_a_new_one_waits_beside_it(db: &mut Db) {
        let mut conn = migrated(db);
        let first = Replaced::new("a", "first").enqueue(&mut conn).unwrap().id();
        let fence = claim_one(&mut conn, "replaced");
        let second = Replaced::new("a", "second").enqueue(&mut conn).unwrap();
        assert!(second.is_new() && second.id() != first);
        let third = Replaced::new("a", "third").enqueue(&mut conn).unwrap();
        assert_eq!(third, Enqueued::Updated { id: second.id() });
        assert_eq!(ready(db), [r#"{"page":"a","text":"third"} v1 generation=1"#]);
        assert_eq!(conn.finish(&default_schema(), &[fence]).unwrap(), [first]);
        // The key is the second one's, which the end of the first one left alone.
        assert!(!Replaced::new("a", "fourth").enqueue(&mut conn).unwrap().is_new());

        // Where running jobs keep the key, too, they are left as they are.
        let open = WhileOpen::new("a", "first").enqueue(&mut conn).unwrap().id();
        claim_one(&mut conn, "while-open");
        let again = WhileOpen::new("a", "second").enqueue(&mut conn).unwrap();
        assert_eq!(again, Enqueued::Existing { id: open });
        let stored = format!("SELECT CAST(payload AS text) FROM leasehold.jobs WHERE id = {open}");
        assert_eq!(db.text(&stored).unwrap(), r#"{"page":"a","text":"first"}"#);
    }
);

conformance!(
    fn a_ready_job_is_given_the_new_run_time(db: &mut Db) {
        let mut conn = migrated(db);
        let later = EnqueueOptions::new().delay(HOUR);
        let new = Rescheduled::new("a", "first").enqueue(&mut conn).unwrap();
        let id = new.id();
        let mut again = |options: &EnqueueOptions| {
            let again = Rescheduled::new("a", "second")
                .enqueue_with(&mut conn, options)
                .unwrap();
            assert_eq!(again, Enqueued::Updated { id });
        };
        again(&later);
        assert_eq!(ready(db), [r#"{"page":"a","text":"first"} v1 generation=1 scheduled"#]);
        assert!(is_about(waits(db, id), HOUR));
        again(&EnqueueOptions::new().run_at(std::time::UNIX_EPOCH + HOUR));
        assert_eq!(ready(db), [r#"{"page":"a","text":"first"} v1 generation=2"#]);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE run_at < created_at"),
            1
        );

        // One that a limit has admitted has to be admitted again, when it is due.
        db.sql("UPDATE leasehold.jobs SET limit_key = 'tenant'");
        again(&later);
        assert_eq!(ready(db), [r#"{"page":"a","text":"first"} v1 generation=3 scheduled"#]);
        again(&EnqueueOptions::new());
        assert_eq!(ready(db), [r#"{"page":"a","text":"first"} v1 generation=4 by limit"#]);
        again(&later);
        assert_eq!(ready(db), [r#"{"page":"a","text":"first"} v1 generation=5 scheduled"#]);
        // One that waits for other jobs still does.
        let waits_for_jobs = match Db::BACKEND {
            "sqlite" => "UPDATE leasehold.jobs SET scheduled = 0, blocked_by = 'jobs'",
            _ => "UPDATE leasehold.jobs SET scheduled = false, blocked_by = 'jobs'",
        };
        db.sql(waits_for_jobs);
        for options in [&later, &EnqueueOptions::new()] {
            again(options);
            assert!(ready(db)[0].ends_with(" by jobs"), "{:?}", ready(db));
        }
        db.sql("UPDATE leasehold.jobs SET limit_key = NULL, blocked_by = NULL");
        assert_eq!(claim_one(&mut conn, "rescheduled").id, id);
    }
);

conformance!(
    fn a_job_may_be_given_both_so_that_the_last_of_many_runs_when_they_end(db: &mut Db) {
        let mut conn = migrated(db);
        let quiet = EnqueueOptions::new().delay(HOUR);
        let id = Both::new("a", "first").enqueue(&mut conn).unwrap().id();
        let again = Both::new("a", "second").enqueue_with(&mut conn, &quiet).unwrap();
        assert_eq!(again, Enqueued::Updated { id });
        assert_eq!(ready(db), [r#"{"page":"a","text":"second"} v1 generation=1 scheduled"#]);
        // As an enqueue may ask for, whatever its kind says.
        let id = Plain::new("a", "first").enqueue(&mut conn).unwrap().id();
        let both = quiet.on_conflict(OnConflict::ReplaceAndReschedule);
        assert_eq!(
            Plain::new("a", "second").enqueue_with(&mut conn, &both).unwrap(),
            Enqueued::Updated { id }
        );
        assert_eq!(
            ready(db)[1],
            r#"{"page":"a","text":"second"} v1 generation=1 scheduled"#
        );
        assert!(is_about(waits(db, id), HOUR));
    }
);

conformance!(
    fn a_payload_that_counts_by_another_limit_has_to_be_admitted_again(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("a").enqueue(&mut conn).unwrap().id();
        let mut generation = 0;
        let mut change = |db: &mut Db, limit: Option<&str>| {
            let changes = [ReadyChange {
                id,
                generation,
                replaced: Some(Replacement {
                    payload: r#"{"text":"b"}"#.to_owned(),
                    version: 1,
                    limit_key: limit.map(str::to_owned),
                }),
                run_at: None,
            }];
            // Not twice: the second one presents an old generation.
            assert_eq!(conn.change_ready(&default_schema(), &changes).unwrap(), [id]);
            assert!(conn.change_ready(&default_schema(), &changes).unwrap().is_empty());
            generation += 1;
            ready(db).remove(0)
        };
        assert!(change(db, Some("x")).ends_with("generation=1 by limit"));
        db.sql("UPDATE leasehold.jobs SET blocked_by = NULL");
        assert!(change(db, Some("x")).ends_with("generation=2"));
        assert!(change(db, Some("y")).ends_with("generation=3 by limit"));
        assert!(change(db, Some("y")).ends_with("generation=4 by limit"));
        assert!(change(db, None).ends_with("generation=5"));
    }
);

conformance!(
    fn a_conflict_may_be_an_error_that_leaves_nothing_behind(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Rejected::new("a", "first").enqueue(&mut conn).unwrap().id();
        let refused = Rejected::new("a", "second").enqueue(&mut conn);
        assert!(
            matches!(refused, Err(EnqueueError::UniqueConflict { id: other }) if other == id),
            "{refused:?}"
        );
        // In a transaction that goes on, too, and with neighbours that were free.
        conn.transaction(|tx| {
            let refused = Job::enqueue_all(
                &[Rejected::new("b", "new"), Rejected::new("a", "second")],
                tx,
                &EnqueueOptions::new(),
            );
            assert!(
                matches!(refused, Err(EnqueueError::UniqueConflict { id: other }) if other == id),
                "{refused:?}"
            );
            write(tx, 1)
        })
        .unwrap();
        assert_eq!(written(db), [1]);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.unique_keys"), 1);
        claim_one(&mut conn, "rejected");
        assert!(Rejected::new("a", "third").enqueue(&mut conn).is_err());
        let keep = EnqueueOptions::new().on_conflict(OnConflict::Keep);
        let kept = Rejected::new("a", "third").enqueue_with(&mut conn, &keep).unwrap();
        assert_eq!(kept, Enqueued::Existing { id });
    }
);

conformance!(
    fn equal_jobs_in_one_call_meet_each_other(db: &mut Db) {
        let mut conn = migrated(db);
        let held = Replaced::new("held", "old").enqueue(&mut conn).unwrap().id();
        let jobs = [
            ("a", "1"),
            ("held", "1"),
            ("a", "2"),
            ("held", "2"),
            ("b", "1"),
            ("a", "3"),
        ];
        let jobs = jobs.map(|(page, text)| Replaced::new(page, text));
        let enqueued = Job::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let id = enqueued[0].id();
        assert!(enqueued[0].is_new() && enqueued[4].is_new());
        assert_eq!([enqueued[2], enqueued[5]], [Enqueued::Updated { id }; 2]);
        assert_eq!([enqueued[1], enqueued[3]], [Enqueued::Updated { id: held }; 2]);
        // The last of each counts.
        let texts: Vec<String> = ready(db);
        assert_eq!(texts.len(), 3);
        assert!(texts[0].starts_with(r#"{"page":"held","text":"2"}"#), "{texts:?}");
        assert!(texts[1].starts_with(r#"{"page":"a","text":"3"}"#), "{texts:?}");
        assert!(texts[2].starts_with(r#"{"page":"b","text":"1"}"#), "{texts:?}");
    }
);

conformance!(
    fn a_job_keeps_its_key_in_the_states_that_say_so_and_in_no_other(db: &mut Db) {
        let mut conn = migrated(db);
        /// Enqueues, lets the job end as its text says, and enqueues again; whether the key was free.
        fn is_free_after<C: Backend, J: Job + Handler<C>>(conn: &mut C, new: fn(&str, &str) -> J, end: &str) -> bool {
            let page = format!("page {end}");
            let id = new(&page, end).enqueue(conn).unwrap().id();
            let runner = Runner::new(()).register::<J>();
            match end {
                "hard" => assert!(manage::cancel(conn, &default_schema(), id, Cancel::Hard, "").unwrap()),
                _ => assert!(runner.run_one(conn).unwrap()),
            }
            let job = inspect::job(conn, &default_schema(), id).unwrap().unwrap();
            let expected = match end {
                "discard" => State::Discarded,
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
    fn a_job_that_lost_its_key_runs_again_and_leaves_the_key_to_its_new_holder(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        // A retry, a snooze, a release and a sweep, each after a second job has taken the key.
        let ways: [fn(&mut Connection, leasehold::__private::Fence); 4] = [
            |conn, fence| put_back(conn, &fence, true),
            |conn, fence| put_back(conn, &fence, false),
            |conn, fence| assert_eq!(conn.release(&default_schema(), &[fence]).unwrap(), [fence.id]),
            |conn, fence| {
                assert_eq!(conn.expire_lease(&default_schema(), fence.id).unwrap(), 1);
                assert_eq!(conn.sweep(&default_schema(), 10).unwrap()[0].state, "ready");
            },
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let page = number.to_string();
            let first = Waiting::new(&page, "first").enqueue(&mut conn).unwrap().id();
            let fence = claim_one(&mut conn, "waiting");
            let second = Waiting::new(&page, "second").enqueue(&mut conn).unwrap();
            assert!(second.is_new());
            way(&mut conn, fence);
            assert_eq!(
                Waiting::new(&page, "third").enqueue(&mut conn).unwrap(),
                Enqueued::Existing { id: second.id() },
                "way {number}"
            );
            // Both are ready; the first one ends, and the key stays with the second one.
            assert_eq!(ready(db).len(), 2, "way {number}");
            let (rows, token) = claim_served(&mut conn, &[served("default", "waiting", 1)], 2);
            let fences: Vec<_> = rows.iter().map(|row| fence_of(row, token)).collect();
            assert_eq!(
                fences.iter().map(|fence| fence.id).collect::<Vec<_>>(),
                [first, second.id()]
            );
            assert_eq!(conn.release(&schema, &fences[1..]).unwrap(), [second.id()]);
            assert_eq!(conn.finish(&schema, &fences[..1]).unwrap(), [first]);
            let holder = format!(
                "SELECT count(*) FROM leasehold.unique_keys WHERE job_id = {}",
                second.id()
            );
            assert_eq!(db.integer(&holder), 1, "way {number}");
            assert!(!Waiting::new(&page, "third").enqueue(&mut conn).unwrap().is_new());
            assert!(Runner::new(()).register::<Waiting>().run_one(&mut conn).unwrap());
        }
    }
);

#[track_caller]
fn put_back<C: Backend>(conn: &mut C, fence: &leasehold::__private::Fence, uses_attempt: bool) {
    let how = PutBack {
        delay_ms: 0,
        uses_attempt,
        takes_away: false,
        error: None,
    };
    assert_eq!(conn.put_back(&default_schema(), fence, &how).unwrap(), 1);
}

conformance!(
    /// procrastinate#1446, oban#1416, awa#388: there, one of them failed the whole sweep, at every tick.
    fn unique_conflicts_among_five_hundred_swept_jobs_fail_none_of_them(db: &mut Db) {
        let mut conn = migrated(db);
        let jobs = |text: &str, numbers: std::ops::Range<usize>| -> Vec<Waiting> {
            numbers.map(|number| Waiting::new(&number.to_string(), text)).collect()
        };
        Job::enqueue_all(&jobs("first", 0..500), &mut conn, &EnqueueOptions::new()).unwrap();
        let (rows, _) = claim_served(&mut conn, &[served("default", "waiting", 1)], 500);
        assert_eq!(rows.len(), 500);
        // Every other one has lost its key meanwhile.
        let again = Job::enqueue_all(&jobs("second", 0..250), &mut conn, &EnqueueOptions::new()).unwrap();
        assert!(again.iter().all(Enqueued::is_new));
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let swept = conn.sweep(&default_schema(), 500).unwrap();
        assert_eq!(swept.len(), 500);
        assert!(swept.iter().all(|job| job.state == "ready" && job.generation == 2));
        assert_eq!(ready(db).len(), 750);
        // Those that kept theirs still have it.
        let third = Job::enqueue_all(&jobs("third", 0..500), &mut conn, &EnqueueOptions::new()).unwrap();
        for (number, answer) in third.iter().enumerate() {
            let holder = match number {
                0..250 => again[number].id(),
                _ => rows[number].id,
            };
            assert_eq!(*answer, Enqueued::Existing { id: holder });
        }
        let counts = Runner::new(()).register::<Waiting>().drain(&mut conn).unwrap();
        assert_eq!(counts.completed, 750);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.unique_keys"), 0);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn a_job_that_an_enqueue_was_answered_with_is_not_claimed_before_its_commit(db: &mut Db) {
        let mut conn = migrated(db);
        let mut worker = open(db);
        let id = Plain::new("a", "").enqueue(&mut conn).unwrap().id();
        let serves = [served("default", "plain", 1)];
        conn.transaction(|tx| {
            let answer = Plain::new("a", "").enqueue(tx)?;
            assert_eq!(answer, Enqueued::Existing { id });
            // What the caller writes now, the job will find.
            assert!(claim_served(&mut worker, &serves, 1).0.is_empty());
            write(tx, 1)?;
            Ok::<_, EnqueueError>(())
        })
        .unwrap();
        assert_eq!(claim_served(&mut worker, &serves, 1).0[0].id, id);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn no_end_of_a_job_waits_for_an_enqueue_of_its_key(db: &mut Db) {
        let mut conn = migrated(db);
        let mut worker = open(db);
        worker.batch_execute("SET statement_timeout = '10s'").unwrap();
        let mut end = |fence| worker.finish(&default_schema(), &[fence]).unwrap();
        // The running one keeps the key; and the running one loses it.
        let plain = Plain::new("a", "").enqueue(&mut conn).unwrap().id();
        let running = claim_one(&mut conn, "plain");
        let waiting = Waiting::new("a", "").enqueue(&mut conn).unwrap().id();
        let loses = claim_one(&mut conn, "waiting");
        let ended = conn.transaction(|tx| {
            assert_eq!(Plain::new("a", "").enqueue(tx)?, Enqueued::Existing { id: plain });
            assert_eq!(end(running), [plain]);
            assert!(Waiting::new("a", "").enqueue(tx)?.is_new());
            assert_eq!(end(loses), [waiting]);
            Err::<(), _>(EnqueueError::Database(Error::RollbackTransaction))
        });
        assert!(ended.is_err());
        // The key that was being taken over is still there, and its holder has ended: it is free.
        assert_eq!(
            db.integer(&format!(
                "SELECT count(*) FROM leasehold.unique_keys WHERE job_id = {waiting}"
            )),
            1
        );
        assert!(Waiting::new("a", "").enqueue(&mut conn).unwrap().is_new());
        assert!(Plain::new("a", "").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    /// Nothing but a broken table does this for long.
    fn an_enqueue_whose_key_can_neither_be_had_nor_found_ends_with_an_error(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql(match Db::BACKEND {
            "sqlite" => "CREATE TRIGGER swallow BEFORE INSERT ON leasehold_unique_keys BEGIN SELECT raise(IGNORE); END",
            _ => {
                "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                 CREATE TRIGGER swallow BEFORE INSERT ON leasehold.unique_keys
                     FOR EACH ROW EXECUTE FUNCTION swallow()"
            }
        });
        let refused = Plain::new("a", "").enqueue(&mut conn);
        assert!(matches!(refused, Err(EnqueueError::KeysContended)), "{refused:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);
