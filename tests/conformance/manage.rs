//! Jobs managed by hand: requeue, edit, cancel many, purge.

use std::time::{Duration, SystemTime};

use leasehold::inspect::{self, Filter, State};
use leasehold::manage::{self, Cancel, Edit, EditError, RequeueError, Requeued};
use leasehold::{EnqueueOptions, Job, JobError, LeaseGuard, Outcome};
use leasehold_tests::jobs::Note as OtherNote;

use crate::support::*;
use crate::unique::{bill, run_bills};

/// Runs the notes of one queue through `handler`.
pub(crate) fn run_queue<C: Backend>(
    conn: &mut C,
    queue: &str,
    handler: impl for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
) {
    let runner = leasehold::testing::Runner::<C, _>::new(handler).register::<Note>();
    runner.queues([queue]).drain(conn).unwrap();
}

/// Enqueues a note whose first attempt discards it with `why`; its id.
fn discarded<C: Backend>(conn: &mut C, queue: &str, why: &'static str) -> i64 {
    let options = EnqueueOptions::new().queue(queue);
    let id = note(why).enqueue_with(conn, &options).unwrap().id();
    run_queue(conn, queue, move |_, _| Err(JobError::discard(why)));
    id
}

conformance!(
    fn a_discarded_job_is_requeued_and_runs_as_a_new_generation(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let key = EnqueueOptions::new().idempotency_key("once").priority(3);
        let id = note("again").enqueue_with(&mut conn, &key).unwrap().id();
        run(&mut conn, |_, _| Err(JobError::discard("not yet")));
        assert_eq!(standing(db, id), "discarded generation=1 attempt=1: not yet");
        let before = inspect::job(&mut conn, &schema, id).unwrap().unwrap();

        manage::requeue(&mut conn, &schema, id, "ops").unwrap();
        assert_eq!(standing(db, id), "ready generation=2 attempt=0");
        let after = inspect::job(&mut conn, &schema, id).unwrap().unwrap();
        assert_eq!(
            (after.payload, after.priority, after.max_attempts, after.created_at),
            (before.payload, 3, before.max_attempts, before.created_at)
        );
        assert_eq!(inspect::errors(&mut conn, &schema, id).unwrap().len(), 1);
        let seen = std::cell::RefCell::new(None);
        run(&mut conn, |_, lease| {
            *seen.borrow_mut() = Some((lease.attempt(), lease.generation(), lease.idempotency_key().to_owned()));
            lease.finish()
        });
        assert_eq!(seen.into_inner(), Some((1, 3, "once".to_owned())));
        assert_eq!(standing(db, id), "completed generation=3 attempt=1");
    }
);

conformance!(
    fn a_job_that_was_taken_away_and_requeued_refuses_its_old_worker(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fence = claimed(&mut conn);
        manage::cancel(&mut conn, &schema, fence.id, Cancel::Hard, "ops", "stop").unwrap();
        manage::requeue(&mut conn, &schema, fence.id, "ops").unwrap();
        assert_eq!(standing(db, fence.id), "ready generation=3 attempt=0");
        assert!(conn.finish(&schema, &[fence]).unwrap().is_empty());
        let next = claim_notes(&mut conn);
        assert_eq!(next[0].generation, 4);
        assert!(conn.finish(&schema, &[fence]).unwrap().is_empty());
        assert_eq!(conn.finish(&schema, &next).unwrap(), [fence.id]);
    }
);

conformance!(
    fn only_what_ended_without_success_is_requeued(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let refused = |conn: &mut Connection, id| match manage::requeue(conn, &schema, id, "ops").unwrap_err() {
            RequeueError::State { state, .. } => state,
            other => panic!("{other}"),
        };
        let fence = claimed(&mut conn);
        assert_eq!(refused(&mut conn, fence.id), State::Running);
        conn.finish(&schema, &[fence]).unwrap();
        assert_eq!(refused(&mut conn, fence.id), State::Completed);
        let ready = note("ready").enqueue(&mut conn).unwrap().id();
        assert_eq!(refused(&mut conn, ready), State::Ready);
        let missing = manage::requeue(&mut conn, &schema, 4711, "ops").unwrap_err();
        assert_eq!(missing.to_string(), "there is no job 4711: it may have been purged");
    }
);

conformance!(
    fn discarded_jobs_are_requeued_by_kind_queue_age_and_error_text(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let mail = discarded(&mut conn, "mail", "no route to host");
        let mail_too = discarded(&mut conn, "mail", "100% full");
        let other = discarded(&mut conn, "other", "no route to host");
        let old = discarded(&mut conn, "other", "no space");
        let cancelled = note("no").enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &schema, cancelled, Cancel::Hard, "ops", "no route to host").unwrap();
        db.set_time(
            "leasehold.finished_jobs",
            "finished_at",
            -7_200_000,
            &format!("id = {old}"),
        );

        let mut requeue = |filter: &Filter| manage::requeue_all(&mut conn, &schema, filter, "ops").unwrap().requeued;
        assert_eq!(requeue(&Filter::new().kind("another")), 0);
        assert_eq!(requeue(&Filter::new().error("no_route%")), 0, "a text, not a pattern");
        assert_eq!(requeue(&Filter::new().queue("mail").error("route to")), 1);
        assert_eq!(requeue(&Filter::new().older_than(Duration::from_secs(3600))), 1);
        assert_eq!(requeue(&Filter::new().error("100% full")), 1);
        assert_eq!(requeue(&Filter::new().kind("note")), 1);
        assert_eq!(requeue(&Filter::new()), 0, "a cancelled job is no discarded one");
        assert_eq!(requeue(&Filter::new().state(State::Completed)), 0);
        assert_eq!(requeue(&Filter::new().state(State::Cancelled)), 1);
        for id in [mail, mail_too, other, old] {
            assert_eq!(standing(db, id), "ready generation=2 attempt=0");
        }
    }
);

conformance!(
    fn more_jobs_than_one_transaction_takes_are_requeued_and_cancelled(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fences = claimed_many(&mut conn, 900);
        let all = Filter::new().kind("note");
        assert_eq!(
            manage::cancel_all(&mut conn, &schema, &all, Cancel::Soft, "ops", "enough").unwrap(),
            900
        );
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE cancel_requested_at IS NOT NULL"),
            900
        );
        assert_eq!(
            manage::cancel_all(&mut conn, &schema, &all, Cancel::Hard, "ops", "enough").unwrap(),
            900
        );
        assert!(conn.finish(&schema, &fences).unwrap().is_empty());
        let cancelled = Filter::new().state(State::Cancelled);
        assert_eq!(
            manage::requeue_all(&mut conn, &schema, &cancelled, "ops")
                .unwrap()
                .requeued,
            900
        );
        assert_eq!(
            claim_served(&mut conn, &[served("default", "note", 1)], 2000).0.len(),
            900
        );
    }
);

conformance!(
    fn a_requeued_job_whose_unique_key_is_taken_stays_and_keeps_nobody_back(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let ids: Vec<i64> = [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
            .map(|(account, amount)| {
                let id = bill(account, amount).enqueue(&mut conn).unwrap().id();
                run_bills(&mut conn, |_| Err(JobError::discard("no")));
                id
            })
            .into();
        let holder = bill("b", 2).enqueue(&mut conn).unwrap().id();
        let taken = manage::requeue(&mut conn, &schema, ids[2], "ops").unwrap_err();
        assert!(
            matches!(taken, RequeueError::KeyTaken { id } if id == ids[2]),
            "{taken}"
        );
        let Requeued {
            requeued, key_taken, ..
        } = manage::requeue_all(&mut conn, &schema, &Filter::new(), "ops").unwrap();
        assert_eq!((requeued, key_taken), (2, 2));
        assert_eq!(
            standing(db, ids[0]),
            "ready generation=2 attempt=0",
            "the elder of two with one key"
        );
        assert_eq!(standing(db, ids[1]), "discarded generation=1 attempt=1: no");
        assert_eq!(standing(db, ids[2]), "discarded generation=1 attempt=1: no");
        assert_eq!(standing(db, ids[3]), "ready generation=2 attempt=0");
        // They hold their keys again.
        for (account, id) in [("a", ids[0]), ("b", holder), ("c", ids[3])] {
            assert_eq!(bill(account, 9).enqueue(&mut conn).unwrap().id(), id);
        }
    }
);

conformance!(
    fn a_ready_job_is_edited_if_nobody_has_touched_it_since(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = note("first").enqueue(&mut conn).unwrap().id();
        let later = SystemTime::now() + Duration::from_secs(3600);
        let change = Edit::new().priority(7).run_at(later).payload(&note("second")).unwrap();
        assert_eq!(manage::edit(&mut conn, &schema, id, 0, &change, "ops").unwrap(), 1);
        let job = inspect::job(&mut conn, &schema, id).unwrap().unwrap();
        assert_eq!((job.priority, job.generation), (7, 1));
        assert_eq!(job.payload, r#"{"text":"second"}"#);
        assert!(is_about(
            job.run_at.duration_since(SystemTime::now()).unwrap(),
            Duration::from_secs(3600)
        ));
        assert!(claim_notes(&mut conn).is_empty(), "it is scheduled now");

        let stale = manage::edit(&mut conn, &schema, id, 0, &Edit::new().priority(1), "ops").unwrap_err();
        assert!(matches!(stale, EditError::Conflict { current: 1, .. }), "{stale}");
        manage::edit(&mut conn, &schema, id, 1, &Edit::new().delay(Duration::ZERO), "ops").unwrap();
        let fence = claim_notes(&mut conn)[0];
        assert_eq!(fence.generation, 3);
        let running = manage::edit(&mut conn, &schema, id, 3, &Edit::new().priority(1), "ops").unwrap_err();
        assert!(
            matches!(
                running,
                EditError::State {
                    state: State::Running,
                    ..
                }
            ),
            "{running}"
        );
        conn.finish(&schema, &[fence]).unwrap();
        let ended = manage::edit(&mut conn, &schema, id, 3, &Edit::new().priority(1), "ops").unwrap_err();
        assert!(
            matches!(
                ended,
                EditError::State {
                    state: State::Completed,
                    ..
                }
            ),
            "{ended}"
        );
        let missing = manage::edit(&mut conn, &schema, 4711, 0, &Edit::new(), "ops").unwrap_err();
        assert!(matches!(missing, EditError::Missing { id: 4711 }), "{missing}");
    }
);

conformance!(
    fn an_edit_changes_neither_the_kind_nor_the_unique_key(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = bill("a", 1).enqueue(&mut conn).unwrap().id();
        let same_key = Edit::new().payload(&bill("a", 2)).unwrap();
        assert_eq!(manage::edit(&mut conn, &schema, id, 0, &same_key, "ops").unwrap(), 1);
        for other in [
            Edit::new().payload(&bill("b", 2)),
            Edit::new().payload(&OtherNote { n: 1 }),
        ] {
            let refused = manage::edit(&mut conn, &schema, id, 1, &other.unwrap(), "ops").unwrap_err();
            assert!(matches!(refused, EditError::Identity { .. }), "{refused}");
        }
        assert!(matches!(
            Edit::new().payload(&note("a\0b")),
            Err(leasehold::EnqueueError::PayloadNul { .. })
        ));
        assert_eq!(standing(db, id), "ready generation=1 attempt=0");
    }
);

conformance!(
    fn a_filter_says_which_open_jobs_are_cancelled(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let running = claimed(&mut conn);
        let ready = note("ready").enqueue(&mut conn).unwrap().id();
        let night = note("night")
            .enqueue_with(&mut conn, &EnqueueOptions::new().queue("night"))
            .unwrap()
            .id();
        let mut cancel =
            |filter: &Filter, how| manage::cancel_all(&mut conn, &schema, filter, how, "ops", "off").unwrap();
        assert_eq!(cancel(&Filter::new().state(State::Completed), Cancel::Hard), 0);
        assert_eq!(cancel(&Filter::new().queue("night"), Cancel::Soft), 1);
        assert_eq!(standing(db, night), "cancelled generation=1 attempt=0: off");
        assert_eq!(cancel(&Filter::new().state(State::Ready), Cancel::Hard), 1);
        assert_eq!(standing(db, ready), "cancelled generation=1 attempt=0: off");
        assert_eq!(standing(db, running.id), "running generation=1 attempt=1");
        assert_eq!(cancel(&Filter::new(), Cancel::Hard), 1);
        assert_eq!(standing(db, running.id), "cancelled generation=2 attempt=1: off");
    }
);

conformance!(
    fn jobs_are_listed_a_page_at_a_time(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fences = claimed_many(&mut conn, 3);
        conn.finish(&schema, &fences[..2]).unwrap();
        let last = note("last").enqueue(&mut conn).unwrap().id();
        let mut page = |filter: &Filter, after| {
            let jobs = inspect::list(&mut conn, &schema, filter, after, 3).unwrap();
            jobs.iter().map(|job| job.id).collect::<Vec<_>>()
        };
        let ids: Vec<i64> = fences.iter().map(|fence| fence.id).collect();
        assert_eq!(page(&Filter::new(), 0), ids);
        assert_eq!(page(&Filter::new(), ids[2]), [last]);
        assert_eq!(page(&Filter::new().state(State::Completed), 0), ids[..2]);
        assert_eq!(page(&Filter::new().state(State::Running), 0), ids[2..]);
    }
);

conformance!(
    fn a_purge_removes_old_jobs_with_all_that_was_kept_of_them(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let old = discarded(&mut conn, "default", "old");
        let recent = discarded(&mut conn, "default", "recent");
        let done = claimed(&mut conn);
        conn.finish(&schema, &[done]).unwrap();
        db.set_time(
            "leasehold.finished_jobs",
            "finished_at",
            -7_200_000,
            &format!("id <> {recent}"),
        );
        let hour = Duration::from_secs(3600);
        assert_eq!(manage::purge(&mut conn, &schema, State::Discarded, hour).unwrap(), 1);
        assert!(inspect::job(&mut conn, &schema, old).unwrap().is_none());
        assert!(inspect::errors(&mut conn, &schema, old).unwrap().is_empty());
        assert_eq!(inspect::errors(&mut conn, &schema, recent).unwrap().len(), 1);
        assert_eq!(standing(db, done.id), "completed generation=1 attempt=1");
        assert_eq!(
            manage::purge(&mut conn, &schema, State::Ready, Duration::ZERO).unwrap(),
            0
        );
    }
);

conformance!(
    fn a_purge_takes_so_many_in_a_statement_and_the_oldest_first(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fences = claimed_many(&mut conn, 5);
        conn.finish(&schema, &fences).unwrap();
        for (n, fence) in fences.iter().enumerate() {
            let ago = -3_600_000 * i64::try_from(n + 1).unwrap();
            db.set_time(
                "leasehold.finished_jobs",
                "finished_at",
                ago,
                &format!("id = {}", fence.id),
            );
        }
        let seen = conn.purge(&schema, "completed", 1000, PurgeCursor::START, 2).unwrap();
        assert_eq!((seen.purged, seen.seen, seen.id), (2, 2, Some(fences[3].id)));
        let left = db.texts("SELECT CAST(id AS text) FROM leasehold.finished_jobs ORDER BY id");
        assert_eq!(left.len(), 3);
        assert_eq!(left[2].as_deref(), Some(fences[2].id.to_string().as_str()));
    }
);

conformance!(
    fn a_purge_leaves_what_a_batch_or_a_waiting_job_needs_and_goes_on_behind_it(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fences = claimed_many(&mut conn, 4);
        conn.finish(&schema, &fences).unwrap();
        let waiting = note("waiting").enqueue(&mut conn).unwrap().id();
        for (n, fence) in fences.iter().enumerate() {
            let ago = -3_600_000 * i64::try_from(10 - n).unwrap();
            db.set_time(
                "leasehold.finished_jobs",
                "finished_at",
                ago,
                &format!("id = {}", fence.id),
            );
        }
        let [counted, awaited, free, last] = fences[..] else {
            panic!("four")
        };
        db.sql(match Db::BACKEND {
            "sqlite" => "INSERT INTO leasehold.batches (id, name, created_at) VALUES (7, 'open', 0)",
            _ => "INSERT INTO leasehold.batches (id, name) VALUES (7, 'open')",
        });
        db.sql(&format!(
            "UPDATE leasehold.finished_jobs SET batch_id = 7 WHERE id = {}",
            counted.id
        ));
        db.sql(&format!(
            "INSERT INTO leasehold.job_waits VALUES ({waiting}, {}, 'it', {})",
            awaited.id,
            match Db::BACKEND {
                "sqlite" => "0",
                _ => "false",
            }
        ));
        let mut purge = |after| conn.purge(&schema, "completed", 1000, after, 2).unwrap();
        let first = purge(PurgeCursor::START);
        assert_eq!((first.purged, first.seen, first.id), (0, 2, Some(awaited.id)));
        let behind = PurgeCursor {
            finished_at: first.finished_at.unwrap(),
            id: awaited.id,
        };
        let second = purge(behind);
        assert_eq!((second.purged, second.seen, second.id), (2, 2, Some(last.id)));
        let left = "SELECT count(*) FROM leasehold.finished_jobs";
        assert_eq!(db.integer(&format!("{left} WHERE id = {}", free.id)), 0);
        assert_eq!(db.integer(left), 2);

        // Once they are not needed they go.
        db.set_time("leasehold.batches", "finished_at", -1000, "id = 7");
        manage::cancel(&mut conn, &schema, waiting, Cancel::Hard, "ops", "no").unwrap();
        assert_eq!(
            manage::purge(&mut conn, &schema, State::Completed, Duration::ZERO).unwrap(),
            2
        );
    }
);

conformance!(
    fn a_payload_without_its_type_is_of_the_same_kind_and_keeps_version_and_keys(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = bill("a", 1).enqueue(&mut conn).unwrap().id();
        let kind = inspect::job(&mut conn, &schema, id).unwrap().unwrap().kind;
        let other = serde_json::json!({ "account": "b", "amount": 2 });
        let mended = Edit::new().untyped_payload(&kind, &other).unwrap();
        assert_eq!(manage::edit(&mut conn, &schema, id, 0, &mended, "ops").unwrap(), 1);
        let job = inspect::job(&mut conn, &schema, id).unwrap().unwrap();
        assert_eq!(
            (job.payload, job.version),
            (r#"{"account":"b","amount":2}"#.to_owned(), 1)
        );
        // It has the key of `a` still.
        assert!(!bill("a", 3).enqueue(&mut conn).unwrap().is_new());
        assert!(bill("b", 3).enqueue(&mut conn).unwrap().is_new());

        let strange = Edit::new().untyped_payload("note", &other).unwrap();
        let refused = manage::edit(&mut conn, &schema, id, 1, &strange, "ops").unwrap_err();
        assert!(matches!(refused, EditError::Identity { .. }), "{refused}");
        assert!(matches!(
            Edit::new().untyped_payload("note", &"a\0b"),
            Err(leasehold::EnqueueError::PayloadNul { .. })
        ));
    }
);
