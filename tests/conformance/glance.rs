//! What people see at a glance: queues, workers, running jobs and rates.

use std::time::{Duration, SystemTime};

use leasehold::batch::{self, BatchSummary};
use leasehold::inspect::{self, Held, QueueRecord};
use leasehold::manage::{self, Cancel, Scope};
use leasehold::{Batch, EnqueueOptions, Job};
use uuid::Uuid;

use crate::support::*;

fn show<C: Backend>(conn: &mut C, id: Uuid, queues: &[&str]) {
    let row = WorkerRow {
        id,
        host: "host".to_owned(),
        pid: 7,
        threads: 4,
        queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
        kinds: Vec::new(),
    };
    assert_eq!(conn.show_worker(&default_schema(), &row).unwrap(), 1);
}

fn figures(queue: &QueueRecord) -> String {
    format!(
        "{}: {} ready, {} scheduled, {} blocked, {} running{}",
        queue.queue,
        queue.ready,
        queue.scheduled,
        queue.blocked,
        queue.running,
        if queue.paused { ", paused" } else { "" }
    )
}

fn told<C: Backend>(conn: &mut C) -> Vec<String> {
    let queues = inspect::queues(conn, &default_schema()).unwrap();
    queues.iter().map(figures).collect()
}

conformance!(
    fn queues_tell_what_waits_and_runs_in_them(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        assert_eq!(told(&mut conn), Vec::<String>::new());
        run_new(&mut conn, |_, lease| lease.finish());
        claimed_many(&mut conn, 3);
        let in_queue = |queue: &str| EnqueueOptions::new().queue(queue);
        for queue in ["b", "b", "d"] {
            note("due").enqueue_with(&mut conn, &in_queue(queue)).unwrap();
        }
        note("later")
            .enqueue_with(&mut conn, &in_queue("c").delay(Duration::from_secs(60)))
            .unwrap();
        note("later")
            .enqueue_with(&mut conn, &in_queue("b").delay(Duration::from_secs(60)))
            .unwrap();
        let callback = EnqueueOptions::new().queue("e");
        Batch::new("one")
            .add(&note("of a batch"))
            .on_finished_with(&note("callback"), &callback)
            .enqueue(&mut conn)
            .unwrap();
        show(&mut conn, Uuid::new_v4(), &["served", "b"]);
        let gone = Uuid::new_v4();
        show(&mut conn, gone, &["of one that is gone"]);
        db.set_time("leasehold.workers", "heartbeat_at", -61_000, &format!("id = '{gone}'"));
        manage::pause(&mut conn, &schema, Scope::Queue("d"), "me", "").unwrap();
        manage::pause(&mut conn, &schema, Scope::Queue("paused"), "me", "").unwrap();
        manage::pause(&mut conn, &schema, Scope::Kind("note"), "me", "").unwrap();
        assert_eq!(
            told(&mut conn),
            [
                "b: 2 ready, 1 scheduled, 0 blocked, 0 running",
                "c: 0 ready, 1 scheduled, 0 blocked, 0 running",
                "d: 1 ready, 0 scheduled, 0 blocked, 0 running, paused",
                "default: 1 ready, 0 scheduled, 0 blocked, 3 running",
                "e: 0 ready, 0 scheduled, 1 blocked, 0 running",
                "paused: 0 ready, 0 scheduled, 0 blocked, 0 running, paused",
                "served: 0 ready, 0 scheduled, 0 blocked, 0 running",
            ]
        );
        manage::pause(&mut conn, &schema, Scope::All, "me", "").unwrap();
        assert!(told(&mut conn).iter().all(|queue| queue.ends_with(", paused")));
    }
);

conformance!(
    fn the_oldest_job_of_a_queue_is_found_behind_other_kinds_and_priorities(db: &mut Db) {
        let mut conn = migrated(db);
        let mut ids = Vec::new();
        for priority in [5, 0, -5] {
            let options = EnqueueOptions::new().priority(priority);
            ids.push(note("due").enqueue_with(&mut conn, &options).unwrap().id());
        }
        db.sql(&format!(
            "INSERT INTO leasehold.jobs (queue, kind, version, payload, priority, run_at, created_at, max_attempts, lease_ms)
             SELECT queue, k.kind, k.version, payload, priority, run_at, created_at, max_attempts, lease_ms FROM leasehold.jobs
             CROSS JOIN (SELECT 'a' AS kind, 1 AS version UNION ALL SELECT 'z', 1 UNION ALL SELECT 'z', 2) AS k
             WHERE id = {}",
            ids[1]
        ));
        let oldest = |conn: &mut Connection| inspect::queues(conn, &default_schema()).unwrap()[0].oldest.unwrap();
        assert!(oldest(&mut conn) < Duration::from_secs(60));
        let mut hours = 0;
        for filter in [
            "priority = 5",
            "kind = 'z' AND version = 1",
            "kind = 'note' AND priority = -5",
            "kind = 'a'",
            "kind = 'z' AND version = 2",
            "kind = 'note' AND priority = 0",
        ] {
            hours += 1;
            db.set_time("leasehold.jobs", "run_at", -3_600_000 * hours, filter);
            let age = oldest(&mut conn);
            let expected = Duration::from_secs(3600 * hours.unsigned_abs());
            assert!(
                age >= expected && age < expected + Duration::from_secs(60),
                "{filter}: {age:?}"
            );
        }
    }
);

conformance!(
    fn a_count_that_ended_early_says_so(db: &mut Db) {
        let mut conn = migrated(db);
        let (now, no) = if Db::BACKEND == "postgres" {
            ("now()", "false")
        } else {
            ("1", "0")
        };
        for (queue, count, blocked) in [
            ("full", 10_001, "NULL"),
            ("all but full", 9_999, "NULL"),
            ("blocked", 10_001, "'jobs'"),
        ] {
            db.sql(&format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
                 INSERT INTO leasehold.jobs (queue, kind, payload, run_at, scheduled, blocked_by, created_at, max_attempts, lease_ms)
                 SELECT '{queue}', 'k', '{{}}', {now}, {no}, {blocked}, {now}, 5, 60000 FROM n"
            ));
        }
        assert_eq!(
            told(&mut conn),
            [
                "all but full: 9999 ready, 0 scheduled, 0+ blocked, 0 running",
                "blocked: 0 ready, 0 scheduled, 10000+ blocked, 0 running",
                "full: 10000+ ready, 0 scheduled, 0+ blocked, 0 running",
            ]
        );
    }
);

conformance!(
    fn what_ended_is_told_by_queue_as_far_as_it_is_counted(db: &mut Db) {
        let mut conn = migrated(db);
        let now = if Db::BACKEND == "postgres" { "now()" } else { "1" };
        let mut first = 0;
        for (queue, state, count) in [
            ("old", "completed", 1),
            ("many", "completed", 5_000),
            ("many", "cancelled", 4_998),
            ("few", "cancelled", 1),
            ("few", "discarded", 2),
        ] {
            db.sql(&format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
                 INSERT INTO leasehold.finished_jobs (id, queue, kind, version, payload, state, priority, run_at, attempt,
                     max_attempts, generation, lease_ms, idempotency_key, created_at, finished_at)
                 SELECT {first} + i, '{queue}', 'k', 1, '{{}}', '{state}', 0, {now}, 1, 5, 1, 60000, 'key', {now}, {now} FROM n"
            ));
            first += 10_000;
            db.set_time(
                "leasehold.finished_jobs",
                "finished_at",
                i64::from(first),
                &format!("id <= {first} AND id > {first} - 10000"),
            );
        }
        let told: Vec<String> = inspect::ended(&mut conn, &default_schema())
            .unwrap()
            .iter()
            .map(|queue| {
                let (completed, discarded, cancelled) = (queue.completed, queue.discarded, queue.cancelled);
                format!(
                    "{}: {completed} completed, {discarded} discarded, {cancelled} cancelled",
                    queue.queue
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "few: 0+ completed, 2 discarded, 1 cancelled",
                "many: 5000+ completed, 0 discarded, 4998 cancelled",
            ]
        );
    }
);

conformance!(
    fn a_batch_is_told_at_a_glance(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let told = |conn: &mut Connection, id: i64| {
            let glance = batch::glance(conn, &schema, id).unwrap()?;
            let BatchSummary {
                open,
                completed,
                discarded,
                cancelled,
                ..
            } = &glance.batch;
            let (ready, scheduled, blocked, running) = (glance.ready, glance.scheduled, glance.blocked, glance.running);
            Some(format!(
                "{ready} ready, {scheduled} scheduled, {blocked} blocked, {running} running of {open}; {completed} {discarded} {cancelled}"
            ))
        };
        let later = EnqueueOptions::new().delay(Duration::from_secs(60));
        let id = Batch::new("one")
            .add_all(&[note("a"), note("b"), note("c"), note("d")], &EnqueueOptions::new())
            .add_all(&[note("later")], &later)
            .enqueue(&mut conn)
            .unwrap()
            .id;
        Batch::new("another").add(&note("e")).enqueue(&mut conn).unwrap();
        db.sql(&format!("UPDATE leasehold.jobs SET blocked_by = 'jobs' WHERE id = (SELECT max(id) FROM leasehold.jobs WHERE batch_id = {id} AND {not})",
            not = if Db::BACKEND == "postgres" { "NOT scheduled" } else { "scheduled = 0" }));
        let serves = [served("default", "note", 1)];
        assert_eq!(conn.claim(&schema, &request(&serves, 1)).unwrap().len(), 1);
        assert_eq!(
            told(&mut conn, id).unwrap(),
            "2 ready, 1 scheduled, 1 blocked, 1 running of 5; 0 0 0"
        );
        batch::cancel(&mut conn, &schema, id, Cancel::Hard, "me", "over").unwrap();
        assert_eq!(
            told(&mut conn, id).unwrap(),
            "0 ready, 0 scheduled, 0 blocked, 0 running of 0; 0 0 5"
        );
        db.sql(&format!("UPDATE leasehold.batches SET finished_at = created_at, completed = 70000, discarded = 0, cancelled = 1 WHERE id = {id}"));
        assert_eq!(
            told(&mut conn, id).unwrap(),
            "0 ready, 0 scheduled, 0 blocked, 0 running of 0; 70000 0 1"
        );
        assert!(batch::glance(&mut conn, &schema, id + 1).unwrap().is_some());
        assert!(batch::glance(&mut conn, &schema, id + 2).unwrap().is_none());
        assert!(batch::glance(&mut conn, &schema, i64::MAX).unwrap().is_none());
    }
);

conformance!(
    fn workers_tell_whether_they_live_and_what_they_hold(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let serves = [served("default", "note", 1)];
        let request = request(&serves, 2);
        for _ in 0..2 {
            note("held").enqueue(&mut conn).unwrap();
        }
        conn.claim(&schema, &request).unwrap();
        let idle = Uuid::new_v4();
        show(&mut conn, request.worker, &["default", "it's"]);
        show(&mut conn, idle, &[]);
        db.set_time("leasehold.workers", "started_at", -1000, &format!("id = '{idle}'"));
        db.set_time("leasehold.workers", "heartbeat_at", -61_000, &format!("id = '{idle}'"));
        let workers = inspect::workers(&mut conn, &schema).unwrap();
        let told: Vec<_> = workers
            .iter()
            .map(|w| (w.id, w.live, w.leases.to_string(), w.queues.join(" ")))
            .collect();
        assert_eq!(
            told,
            [
                (request.worker, true, "2".to_owned(), "default it's".to_owned()),
                (idle, false, "0".to_owned(), String::new())
            ]
        );
        assert_eq!(
            (workers[0].host.as_str(), workers[0].pid, workers[0].threads),
            ("host", 7, 4)
        );
        assert!(workers[0].started_at <= SystemTime::now() && workers[1].heartbeat_at < workers[0].heartbeat_at);
    }
);

conformance!(
    fn running_jobs_tell_of_their_lease(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let fences = claimed_many(&mut conn, 4);
        note("waits").enqueue(&mut conn).unwrap();
        let (expired, asked, working) = (fences[0].id, fences[1].id, fences[2].id);
        conn.expire_lease(&schema, expired).unwrap();
        manage::cancel(&mut conn, &schema, asked, Cancel::Soft, "ops", "stop").unwrap();
        let at = if Db::BACKEND == "postgres" { "now()" } else { "1" };
        db.sql(&format!("INSERT INTO leasehold.job_progress VALUES ({working}, 1, 3, 9, 'thirds', {at}), ({asked}, 0, 1, 2, 'of before', {at})"));
        let all = inspect::running(&mut conn, &schema, &Held::new(), 0, 100).unwrap();
        assert_eq!(
            all.iter().map(|job| job.id).collect::<Vec<_>>(),
            fences.iter().map(|fence| fence.id).collect::<Vec<_>>()
        );
        assert!(all.iter().all(
            |job| (job.generation, job.attempt, job.begun) == (1, 1, true) && job.lease == Duration::from_secs(60)
        ));
        assert_eq!(
            all.iter().map(|job| job.left.is_some()).collect::<Vec<_>>(),
            [false, true, true, true]
        );
        assert!(
            is_about(all[1].left.unwrap(), Duration::from_secs(60)),
            "{:?}",
            all[1].left
        );
        assert_eq!(
            all.iter()
                .map(|job| job.cancel_requested_at.is_some())
                .collect::<Vec<_>>(),
            [false, true, false, false]
        );
        let progress: Vec<_> = all
            .iter()
            .map(|job| {
                job.progress
                    .as_ref()
                    .map(|told| (told.done, told.total, told.text.as_str()))
            })
            .collect();
        assert_eq!(progress, [None, None, Some((3, 9, "thirds")), None]);
        let page = |held: &Held, after, limit, conn: &mut Connection| -> Vec<i64> {
            let page = inspect::running(conn, &schema, held, after, limit).unwrap();
            page.into_iter().map(|job| job.id).collect()
        };
        assert_eq!(page(&Held::new(), expired, 2, &mut conn), [asked, working]);
        let held = Held::new().queue("default").kind("note").worker(all[0].worker);
        assert_eq!(page(&held, 0, 9, &mut conn).len(), 4);
        for other in [
            held.clone().queue("x"),
            held.clone().kind("x"),
            held.clone().worker(Uuid::new_v4()),
        ] {
            assert!(page(&other, 0, 9, &mut conn).is_empty(), "{other:?}");
        }
    }
);

conformance!(
    fn rates_tell_how_many_jobs_ended_when_and_how_long_they_took(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let minute = Duration::from_secs(60);
        let (now, step, end) = match Db::BACKEND {
            "postgres" => ("now()", "* INTERVAL '1 millisecond'", "::timestamptz"),
            _ => (
                "(SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS integer))",
                "",
                "",
            ),
        };
        // In the second minute before the one that runs: its begin is known from an empty answer.
        let empty = inspect::rates(&mut conn, &schema, minute, 3).unwrap();
        assert_eq!(empty.len(), 3);
        assert!(
            empty
                .iter()
                .all(|rate| rate.completed.to_string() == "0" && rate.latency.is_none())
        );
        let mut ended = |id: i64, count: i64, state: &str, ago_ms: i64, took_ms: &str| {
            db.sql(&format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
                 INSERT INTO leasehold.finished_jobs (id, queue, kind, version, payload, state, priority, run_at, attempt,
                     max_attempts, generation, lease_ms, idempotency_key, created_at, finished_at)
                 SELECT {id} + i, 'default', 'note', 1, '{{}}', '{state}', 0, {now}{end} - ({ago_ms} + {took_ms}) {step}, 1, 5, 1, 60000,
                     'k', {now}, {now} - {ago_ms} {step} FROM n"
            ));
        };
        ended(0, 100, "completed", 3_600_000, "i * 10");
        ended(1_000, 2, "discarded", 3_600_000, "0");
        ended(2_000, 3, "cancelled", 3_600_000, "0");
        ended(10_000, 1, "completed", 10 * 24 * 3_600_000, "0");
        ended(20_000, 1_700, "completed", 1_800_000, "0");
        let hours = inspect::rates(&mut conn, &schema, minute, 120).unwrap();
        let told: Vec<_> = hours
            .iter()
            .filter(|rate| rate.completed.rows + rate.discarded.rows + rate.cancelled.rows > 0)
            .map(|rate| format!("{} {} {}", rate.completed, rate.discarded, rate.cancelled))
            .collect();
        // 100,000 over 120 buckets.
        assert_eq!(told, ["100 2 3", "833+ 0 0"]);
        let hour_ago = hours.iter().find(|rate| rate.completed.rows == 100).unwrap();
        let age = SystemTime::now().duration_since(hour_ago.from).unwrap();
        assert!(age >= 60 * minute && age < 63 * minute, "{age:?}");
        let latency = hour_ago.latency.unwrap();
        // 10,000 over 120 buckets are 83 of each.
        assert!(
            latency.jobs == 83 && latency.longest <= Duration::from_millis(1001),
            "{latency:?}"
        );
        assert!(
            latency.median <= latency.p95 && latency.p95 <= latency.longest && latency.mean < latency.p95,
            "{latency:?}"
        );
        assert!(hours.windows(2).all(|two| two[1].from == two[0].from + minute));
    }
);
