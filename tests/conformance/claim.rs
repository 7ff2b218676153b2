//! Claim: which rows it takes, in which order, and what it writes.

use std::time::Duration;

use leasehold::{EnqueueOptions, Job};
use serde::{Deserialize, Serialize};

use crate::fence::put_back;
use crate::support::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "call")]
pub(crate) struct Call {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "note", version = 2, migrate = refuse)]
struct NewerNote {}

fn refuse(_: u32, _: leasehold::__private::Value) -> Result<leasehold::__private::Value, std::string::String> {
    Err("no".to_owned())
}

pub(crate) fn ids(rows: &[ClaimedRow]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

pub(crate) fn notes_served() -> [Served; 1] {
    [served("default", "note", 1)]
}

conformance!(
    fn the_highest_priority_then_the_earliest_then_the_first_is_claimed(db: &mut Db) {
        let mut conn = migrated(db);
        let mut enqueue = |priority: i16, minutes_ago: u64| {
            let at = std::time::SystemTime::now() - Duration::from_secs(60 * minutes_ago);
            let options = EnqueueOptions::new().priority(priority).run_at(at);
            note("").enqueue_with(&mut conn, &options).unwrap().id()
        };
        let (low, plain, early) = (enqueue(-5, 9), enqueue(0, 1), enqueue(0, 5));
        let (high, highest) = (enqueue(3, 1), enqueue(i16::MAX, 0));
        db.sql(&format!(
            "UPDATE leasehold.jobs SET run_at = (SELECT run_at FROM leasehold.jobs WHERE id = {early}) WHERE id = {plain}"
        ));
        let mut order = Vec::new();
        while let [row] = &claim_served(&mut conn, &notes_served(), 1).0[..] {
            order.push(row.id);
        }
        assert_eq!(order, [highest, high, plain, early, low]);
    }
);

conformance!(
    fn a_limit_is_exact_over_all_kinds_and_queues_and_takes_the_best_of_them(db: &mut Db) {
        let mut conn = migrated(db);
        let queues = ["a", "b", "c"];
        let mut best = Vec::new();
        for (place, queue) in queues.iter().enumerate() {
            for number in 0..6_i16 {
                let priority = number + i16::try_from(place).unwrap();
                let options = EnqueueOptions::new().queue(*queue).priority(priority);
                best.push((-priority, note("").enqueue_with(&mut conn, &options).unwrap().id()));
                best.push((-priority, Call {}.enqueue_with(&mut conn, &options).unwrap().id()));
            }
        }
        let serves: Vec<Served> = queues
            .iter()
            .flat_map(|queue| {
                [
                    served(queue, "note", 1),
                    served(queue, "call", 1),
                    served(queue, "other", 1),
                ]
            })
            .collect();
        // By priority, and equal ones by age, which is the order of the ids.
        best.sort_unstable();
        for expected in best.chunks(7) {
            let mut expected: Vec<i64> = expected.iter().map(|(_, id)| *id).collect();
            expected.sort_unstable();
            assert_eq!(ids(&claim_served(&mut conn, &serves, 7).0), expected);
        }
        assert!(claim_served(&mut conn, &serves, 7).0.is_empty());
    }
);

conformance!(
    /// Tables that grew since they were analysed, and each way to join: a limit that is run once for each row of something
    /// else takes more than it says.
    fn a_limit_is_exact_whatever_plan_the_server_chooses(db: &mut Db) {
        let mut conn = migrated(db);
        note("").enqueue(&mut conn).unwrap();
        db.sql("ANALYZE");
        let notes = vec![note(""); 500];
        Job::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
        let ways: &[&str] = match Db::BACKEND {
            "sqlite" => &[""],
            _ => &["nestloop", "hashjoin", "mergejoin"],
        };
        let before = db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready'");
        for (way, claims) in ways.iter().zip(1..) {
            let mut conn = db.connect();
            if Db::BACKEND == "postgres" {
                let off = ways.iter().filter(|other| *other != way);
                let off: String = off.map(|other| format!("SET enable_{other} = off; ")).collect();
                conn.batch_execute(&format!("{off}SET enable_material = off")).unwrap();
            }
            assert_eq!(claim_served(&mut conn, &notes_served(), 3).0.len(), 3, "{way}");
            let ready = db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready'");
            assert_eq!(before - ready, 3 * claims, "{way}");
        }
    }
);

conformance!(
    fn what_is_not_served_at_the_head_of_the_line_is_in_nobodys_way(db: &mut Db) {
        let mut conn = migrated(db);
        let urgent = EnqueueOptions::new().priority(9);
        for _ in 0..20 {
            Call {}.enqueue_with(&mut conn, &urgent).unwrap();
            NewerNote {}.enqueue_with(&mut conn, &urgent).unwrap();
            let elsewhere = urgent.clone().queue("elsewhere");
            note("").enqueue_with(&mut conn, &elsewhere).unwrap();
            let later = urgent.clone().delay(Duration::from_secs(60));
            note("").enqueue_with(&mut conn, &later).unwrap();
        }
        let last = note("").enqueue(&mut conn).unwrap().id();
        assert_eq!(ids(&claim_served(&mut conn, &notes_served(), 1).0), [last]);
    }
);

conformance!(
    fn only_what_is_served_and_due_is_claimed(db: &mut Db) {
        let mut conn = migrated(db);
        let elsewhere = EnqueueOptions::new().queue("Default");
        note("another queue").enqueue_with(&mut conn, &elsewhere).unwrap();
        Call {}.enqueue(&mut conn).unwrap();
        NewerNote {}.enqueue(&mut conn).unwrap();
        let later = EnqueueOptions::new().delay(Duration::from_secs(60));
        note("scheduled").enqueue_with(&mut conn, &later).unwrap();
        let ended = claimed(&mut conn);
        conn.finish(&default_schema(), &[ended]).unwrap();
        let running = claimed(&mut conn);
        let due = note("due").enqueue(&mut conn).unwrap().id();
        assert_eq!(ids(&claim_served(&mut conn, &notes_served(), 100).0), [due]);
        assert_eq!(
            db.integer("SELECT generation FROM leasehold.jobs WHERE id = 6"),
            running.generation
        );
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE generation = 0"),
            4
        );
        assert!(claim_served(&mut conn, &[], 100).0.is_empty());
        // Each of them is claimed by a program that serves it.
        let served = [
            served("Default", "note", 1),
            served("default", "call", 1),
            served("default", "note", 2),
        ];
        assert_eq!(ids(&claim_served(&mut conn, &served, 100).0), [1, 2, 3]);
    }
);

conformance!(
    fn scheduled_jobs_that_came_due_are_claimable_once_promoted(db: &mut Db) {
        let mut conn = migrated(db);
        let later = EnqueueOptions::new().delay(Duration::from_secs(60));
        let queue = |name: &str| later.clone().queue(name);
        let [first, second, third, other, _far] = ["default", "default", "default", "other", "default"]
            .map(|name| note(name).enqueue_with(&mut conn, &queue(name)).unwrap().id());
        let call = Call {}.enqueue_with(&mut conn, &later).unwrap().id();
        let serves = [served("default", "note", 1), served("more", "note", 1)];
        assert_eq!(conn.promote(&default_schema(), &serves, 10).unwrap(), 0);
        db.set_time(
            "leasehold.jobs",
            "run_at",
            -1000,
            &format!("id IN ({first}, {second}, {other}, {call})"),
        );
        db.set_time("leasehold.jobs", "run_at", -2000, &format!("id = {third}"));
        assert!(claim_served(&mut conn, &notes_served(), 10).0.is_empty());
        // The earliest first, as many as may be, and of what is served alone.
        assert_eq!(conn.promote(&default_schema(), &serves, 1).unwrap(), 1);
        assert_eq!(ids(&claim_served(&mut conn, &notes_served(), 10).0), [third]);
        assert_eq!(conn.promote(&default_schema(), &serves, 10).unwrap(), 2);
        assert_eq!(ids(&claim_served(&mut conn, &notes_served(), 10).0), [first, second]);
        assert_eq!(conn.promote(&default_schema(), &serves, 10).unwrap(), 0);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready'"),
            3
        );
    }
);

conformance!(
    fn a_claim_records_the_lease_and_returns_the_job(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new()
            .lease(Duration::from_secs(90))
            .max_attempts(7)
            .idempotency_key("key");
        let id = note("text").enqueue_with(&mut conn, &options).unwrap().id();
        let serves = notes_served();
        for (claims, begun) in [(1, false), (2, true)] {
            let kept_before = kept(db, "leasehold.jobs", id).unwrap();
            let request = ClaimRequest {
                begun,
                counted: &[],
                oldest: false,
                behind: &[],
                ..request(&serves, 10)
            };
            let rows = conn.claim(&default_schema(), &request).unwrap();
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!(
                (row.id, row.queue.as_str(), row.kind.as_str(), row.version),
                (id, "default", "note", 1)
            );
            assert_eq!(
                (row.payload.as_str(), row.idempotency_key.as_str()),
                (r#"{"text":"text"}"#, "key")
            );
            assert_eq!((row.attempt, row.max_attempts, row.lease_ms), (claims, 7, 90_000));
            assert_eq!(row.generation, i64::from(claims));
            assert_eq!(
                standing(db, id),
                format!("running generation={claims} attempt={claims}")
            );
            let text = |column: &str| format!("SELECT CAST({column} AS text) FROM leasehold.jobs");
            assert_eq!(db.text(&text("lease_token")), Some(request.lease_token.to_string()));
            assert_eq!(db.text(&text("worker")), Some(request.worker.to_string()));
            assert_eq!(
                db.integer("SELECT CAST(begun AS integer) FROM leasehold.jobs"),
                i64::from(begun)
            );
            let lease = from_now(db, "leasehold.jobs", "lease_until", "state = 'running'");
            assert!(is_about(lease, Duration::from_secs(90)), "{lease:?}");
            let kept_after = kept(db, "leasehold.jobs", id).unwrap();
            let payload_and_times = |kept: &str| kept.split('|').take(15).map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(payload_and_times(&kept_after), payload_and_times(&kept_before));
            assert!(claim_served(&mut conn, &serves, 10).0.is_empty());
            let fence = fence_of(row, request.lease_token);
            assert_eq!(conn.put_back(&default_schema(), &fence, &put_back()).unwrap(), 1);
        }
    }
);

conformance!(
    fn a_row_at_the_end_of_its_numbers_does_not_fail_the_claim_of_its_neighbours(db: &mut Db) {
        let mut conn = migrated(db);
        let ids_of: Vec<i64> = (0..5).map(|_| note("").enqueue(&mut conn).unwrap().id()).collect();
        for (id, column, value) in [
            (ids_of[0], "generation", i64::MAX - 1),
            (ids_of[1], "generation", i64::MAX - 2),
            (ids_of[2], "attempt", i64::from(i32::MAX)),
            (ids_of[3], "generation", i64::MAX - 3),
        ] {
            db.sql(&format!("UPDATE leasehold.jobs SET {column} = {value} WHERE id = {id}"));
        }
        let (rows, _) = claim_served(&mut conn, &notes_served(), 10);
        assert_eq!(ids(&rows), ids_of[3..]);
        assert_eq!(rows[0].generation, i64::MAX - 2);
        // Its last number is for the sweep.
        assert_eq!(take_over(&mut conn, ids_of[3]), None);
        assert_eq!(
            standing(db, ids_of[3]),
            format!("ready generation={} attempt=1", i64::MAX - 1)
        );
    }
);

conformance!(
    fn a_claim_of_the_oldest_goes_by_run_time_whatever_the_priority_and_the_kind(db: &mut Db) {
        let mut conn = migrated(db);
        let mut expected = Vec::new();
        for (minutes, priority) in [(50, 0), (40, 7), (30, -7), (20, 0), (10, 32767)] {
            let options = EnqueueOptions::new().priority(priority);
            let id = note("n").enqueue_with(&mut conn, &options).unwrap().id();
            db.set_time("leasehold.jobs", "run_at", -minutes * 60_000, &format!("id = {id}"));
            expected.push(id);
        }
        // What is not due, what is locked away by a limit and what is not served is no older.
        let later = EnqueueOptions::new().delay(std::time::Duration::from_secs(60));
        note("later").enqueue_with(&mut conn, &later).unwrap();
        Call {}.enqueue(&mut conn).unwrap();
        let serves = notes_served();
        for expected in [&expected[..3], &expected[3..], &[]] {
            let request = ClaimRequest {
                oldest: true,
                behind: &[],
                ..request(&serves, 3)
            };
            let mut claimed = ids(&conn.claim(&default_schema(), &request).unwrap());
            claimed.sort_unstable();
            assert_eq!(claimed, expected);
        }
    }
);
