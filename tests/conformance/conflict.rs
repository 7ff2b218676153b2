//! What an enqueue does whose unique key another job has.

use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job, OnConflict};
use serde::{Deserialize, Serialize};

use crate::pages::*;
use crate::support::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "replaced", version = 2, unique(by = "page", on_conflict = "replace"))]
struct Newer {
    page: String,
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
