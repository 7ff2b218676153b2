//! Looking at jobs: one record wherever the job is, its attempts, and counts.

use std::time::{Duration, SystemTime};

use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, JobError};

use crate::support::*;

conformance!(
    fn a_record_follows_its_job_through_every_state(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = note("secret").enqueue(&mut conn).unwrap().id();
        let mut states = Vec::new();
        let mut look = |conn: &mut Connection| {
            let job = inspect::job(conn, &schema, id).unwrap().unwrap();
            assert_eq!(
                (job.id, job.kind.as_str(), job.payload.as_str()),
                (id, "note", r#"{"text":"secret"}"#)
            );
            assert_eq!(
                job.finished_at.is_some(),
                !matches!(job.state, State::Ready | State::Running)
            );
            assert!(!format!("{job:?}").contains("secret"), "{job:?}");
            states.push((job.state, job.generation, job.attempt));
            job
        };
        let ready = look(&mut conn);
        let fence = claim_notes(&mut conn)[0];
        look(&mut conn);
        conn.put_back(&schema, &fence, &crate::fence::put_back()).unwrap();
        look(&mut conn);
        claim_notes(&mut conn);
        manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "enough").unwrap();
        let cancelled = look(&mut conn);
        assert_eq!(
            states,
            [
                (State::Ready, 0, 0),
                (State::Running, 1, 1),
                (State::Ready, 1, 1),
                (State::Cancelled, 3, 2)
            ]
        );
        assert_eq!(
            (cancelled.created_at, &cancelled.idempotency_key),
            (ready.created_at, &ready.idempotency_key)
        );
        assert_eq!(cancelled.reason.as_deref(), Some("enough"));
        let finished_at = cancelled.finished_at.unwrap();
        assert!(ready.created_at <= finished_at && finished_at <= SystemTime::now());
        assert!(inspect::job(&mut conn, &schema, id + 1).unwrap().is_none());
    }
);

conformance!(
    fn attempts_are_told_oldest_first_also_after_the_end(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("failing").enqueue(&mut conn).unwrap().id();
        for text in ["one", "two", "three"] {
            run(&mut conn, |_, _| match text {
                "three" => Err(JobError::discard(text)),
                _ => Err(JobError::retry(text)),
            });
            conn.move_run_at(&default_schema(), id, 0).unwrap();
        }
        run_new(&mut conn, |_, _| Err(JobError::retry("another job's")));
        let attempts = inspect::errors(&mut conn, &default_schema(), id).unwrap();
        let told: Vec<_> = attempts
            .iter()
            .map(|attempt| (attempt.attempt, attempt.error.as_str()))
            .collect();
        assert_eq!(told, [(1, "one"), (2, "two"), (3, "three")]);
        assert!(attempts.windows(2).all(|two| two[0].at <= two[1].at));
        let age = SystemTime::now().duration_since(attempts[2].at).unwrap();
        assert!(age < Duration::from_secs(10), "{age:?}");
        assert!(inspect::errors(&mut conn, &default_schema(), 999).unwrap().is_empty());
    }
);

conformance!(
    fn jobs_are_counted_by_queue_and_state(db: &mut Db) {
        let mut conn = migrated(db);
        assert!(inspect::counts(&mut conn, &default_schema()).unwrap().is_empty());
        let queue = |name: &str| EnqueueOptions::new().queue(name);
        // "a" has ended jobs, running ones, scheduled ones and ready ones; "b" has ready ones alone.
        run_new(&mut conn, |_, lease| lease.finish());
        run_new(&mut conn, |_, lease| lease.finish());
        run_new(&mut conn, |_, lease| lease.cancel("no"));
        run_new(&mut conn, |_, _| Err(JobError::discard("no")));
        claimed_many(&mut conn, 3);
        let later = EnqueueOptions::new().delay(Duration::from_secs(60));
        for _ in 0..4 {
            note("later").enqueue_with(&mut conn, &later).unwrap();
        }
        note("due").enqueue(&mut conn).unwrap();
        for _ in 0..5 {
            note("b").enqueue_with(&mut conn, &queue("b")).unwrap();
        }
        let mut counts: Vec<_> = inspect::counts(&mut conn, &default_schema())
            .unwrap()
            .into_iter()
            .map(|count| (count.queue, count.state.to_string(), count.scheduled, count.jobs))
            .collect();
        counts.sort();
        let count = |queue: &str, state: &str, scheduled, jobs| (queue.to_owned(), state.to_owned(), scheduled, jobs);
        assert_eq!(
            counts,
            [
                count("b", "ready", false, 5),
                count("default", "cancelled", false, 1),
                count("default", "completed", false, 2),
                count("default", "discarded", false, 1),
                count("default", "ready", false, 1),
                count("default", "ready", true, 4),
                count("default", "running", false, 3),
            ]
        );
    }
);

conformance!(
    fn open_jobs_are_those_of_the_kind_that_have_not_ended_oldest_first(db: &mut Db) {
        let mut conn = migrated(db);
        run_new(&mut conn, |_, lease| lease.finish());
        let running = claimed(&mut conn);
        let waiting = note("waiting").enqueue(&mut conn).unwrap().id();
        let open = conn.open_jobs(&default_schema(), "note").unwrap();
        let told: Vec<_> = open.iter().map(|job| (job.id, job.state.as_str())).collect();
        assert_eq!(told, [(running.id, "running"), (waiting, "ready")]);
        assert!(conn.open_jobs(&default_schema(), "Note").unwrap().is_empty());
    }
);

conformance!(
    fn a_worker_process_shows_itself_and_hides(db: &mut Db) {
        let mut conn = migrated(db);
        let worker = |pid| WorkerRow {
            id: uuid::Uuid::new_v4(),
            host: "host \"x\"".to_owned(),
            pid,
            threads: 4,
            queues: vec!["it's".to_owned(), "b".to_owned()],
            kinds: vec![("note".to_owned(), 1)],
        };
        let (first, second) = (worker(1), worker(2));
        for shown in [&first, &second, &first] {
            assert_eq!(conn.show_worker(&default_schema(), shown).unwrap(), 1);
        }
        assert_eq!(
            db.texts("SELECT host || ' ' || pid || ' ' || threads || ' ' || CAST(queues AS text) FROM leasehold.workers ORDER BY pid"),
            [1, 2].map(|pid| Some(format!(r#"host "x" {pid} 4 ["it's","b"]"#)))
        );
        db.set_time("leasehold.workers", "heartbeat_at", -3_500_000, "pid = 2");
        conn.hide_worker(&default_schema(), first.id).unwrap();
        assert_eq!(db.integer("SELECT pid FROM leasehold.workers"), 2);
        // One that has not shown itself for an hour is gone.
        db.set_time("leasehold.workers", "heartbeat_at", -3_700_000, "pid = 2");
        conn.hide_worker(&default_schema(), first.id).unwrap();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.workers"), 0);
    }
);

conformance!(
    fn the_kinds_are_told_that_live_workers_serve(db: &mut Db) {
        let mut conn = migrated(db);
        let worker = |pid, kinds: &[(&str, i32)]| WorkerRow {
            id: uuid::Uuid::new_v4(),
            host: "host".to_owned(),
            pid,
            threads: 4,
            queues: vec!["default".to_owned()],
            kinds: kinds
                .iter()
                .map(|(kind, version)| ((*kind).to_owned(), *version))
                .collect(),
        };
        for shown in [
            worker(1, &[("note", 1), ("it's", 3)]),
            worker(2, &[("note", 2)]),
            worker(3, &[("gone", 1)]),
        ] {
            conn.show_worker(&default_schema(), &shown).unwrap();
        }
        db.set_time("leasehold.workers", "heartbeat_at", -120_000, "pid = 3");
        let served = inspect::served(&mut conn, &default_schema()).unwrap();
        let served: Vec<_> = served.iter().map(|one| (one.kind.as_str(), one.version)).collect();
        assert_eq!(served, [("it's", 3), ("note", 2)]);
    }
);
