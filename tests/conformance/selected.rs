//! The claim of chosen jobs: what it takes, and what it answers for each of the others.

use std::time::Duration;

use leasehold::{EnqueueOptions, Job, Limit, manage};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::claim::Call;
use crate::support::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "limited", concurrency(max = 1))]
pub(crate) struct Limited {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "keyed", unique(by = "n"))]
struct Keyed {
    n: i64,
}

/// Notes, and the kinds above.
pub(crate) fn runs() -> Vec<RunsKind> {
    ["note", "limited", "keyed"].map(|kind| runs_kind(kind, 1)).into()
}

fn runs_kind(kind: &str, version: i32) -> RunsKind {
    RunsKind {
        kind: kind.to_owned(),
        version,
    }
}

pub(crate) fn request<'a>(chosen: Chosen<'a>, runs: &'a [RunsKind]) -> SelectedRequest<'a> {
    SelectedRequest {
        chosen,
        runs,
        lease_token: Uuid::new_v4(),
        worker: Uuid::new_v4(),
        counted: &[],
    }
}

/// The answers of one claim, and its token.
#[track_caller]
pub(crate) fn choose<C: Backend>(conn: &mut C, ids: &[i64]) -> (Vec<SelectedRow>, Uuid) {
    let runs = runs();
    let request = request(Chosen::Ids(ids), &runs);
    let rows = claim_selected(conn, &default_schema(), &request).unwrap();
    (rows, request.lease_token)
}

/// The answers as texts.
#[track_caller]
pub(crate) fn answers<C: Backend>(conn: &mut C, ids: &[i64]) -> Vec<&'static str> {
    choose(conn, ids).0.iter().map(|row| name(&row.found)).collect()
}

pub(crate) fn name(found: &SelectedAs) -> &'static str {
    match found {
        SelectedAs::Claimed(_) => "claimed",
        SelectedAs::Busy => "busy",
        SelectedAs::Running { .. } => "running",
        SelectedAs::NotDue { .. } => "not due",
        SelectedAs::ByLimit { .. } => "limit",
        SelectedAs::ByJobs => "jobs",
        SelectedAs::Paused => "paused",
        SelectedAs::NotServed { .. } => "not served",
        SelectedAs::Expired => "expired",
        SelectedAs::Ended { state, .. } => match state.as_str() {
            "completed" => "completed",
            "discarded" => "discarded",
            _ => "cancelled",
        },
        SelectedAs::Missing => "missing",
    }
}

#[track_caller]
pub(crate) fn notes<C: Backend>(conn: &mut C, count: usize) -> Vec<i64> {
    let notes: Vec<Note> = (0..count).map(|number| note(number.to_string())).collect();
    let enqueued = Job::enqueue_all(&notes, conn, &EnqueueOptions::new()).unwrap();
    enqueued.iter().map(leasehold::Enqueued::id).collect()
}

#[track_caller]
pub(crate) fn claimed_row(row: &SelectedRow) -> &ClaimedRow {
    match &row.found {
        SelectedAs::Claimed(claimed) => claimed,
        other => panic!("{other:?}"),
    }
}

conformance!(
    fn a_chosen_job_is_claimed_as_any_other_and_nothing_else_is(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = notes(&mut conn, 3);
        let untouched = row(db, ids[0]);
        let (rows, lease_token) = choose(&mut conn, &[ids[2], ids[1]]);
        assert_eq!(
            rows.iter().map(|row| row.id).collect::<Vec<_>>(),
            [Some(ids[2]), Some(ids[1])]
        );
        for (row, id) in rows.iter().zip([ids[2], ids[1]]) {
            let claimed = claimed_row(row);
            assert_eq!((claimed.id, claimed.generation, claimed.attempt), (id, 1, 1));
            assert_eq!((claimed.queue.as_str(), claimed.kind.as_str()), ("default", "note"));
            assert_eq!(
                (claimed.lease_ms, claimed.expires_in_ms, claimed.awaited),
                (60_000, None, false)
            );
            let filter = format!(
                "id = {id} AND lease_token = '{lease_token}' AND worker IS NOT NULL AND CAST(begun AS integer) = 1"
            );
            assert_eq!(
                db.integer(&format!("SELECT count(*) FROM leasehold.jobs WHERE {filter}")),
                1
            );
            let lease = from_now(db, "leasehold.jobs", "lease_until", &filter);
            assert!(is_about(lease, Duration::from_secs(60)), "{lease:?}");
        }
        assert_eq!(claimed_row(&rows[0]).payload, r#"{"text":"2"}"#);
        assert_eq!(row(db, ids[0]), untouched);
        // What was claimed is found by its token, if the answer should be lost.
        assert_eq!(conn.find_claimed(&default_schema(), lease_token).unwrap().len(), 2);
        let fences = rows
            .iter()
            .map(|row| fence_of(claimed_row(row), lease_token))
            .rev()
            .collect::<Vec<_>>();
        assert_eq!(conn.finish(&default_schema(), &fences).unwrap().len(), 2);
    }
);

conformance!(
    fn each_job_that_cannot_be_claimed_says_why(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let held = claimed(&mut conn);
        let done = claimed(&mut conn);
        conn.finish(&schema, &[done]).unwrap();
        let discarded = claimed(&mut conn);
        let end = End {
            state: "discarded",
            reason: None,
            takes_away: false,
            error: None,
        };
        conn.end(&schema, &discarded, &end).unwrap();
        let cancelled = note("").enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &schema, cancelled, manage::Cancel::Soft, "ops", "not needed").unwrap();
        let later = EnqueueOptions::new().delay(Duration::from_secs(600));
        let later = note("").enqueue_with(&mut conn, &later).unwrap().id();
        let limited = Limited {}.enqueue(&mut conn).unwrap().id();
        let call = Call {}.enqueue(&mut conn).unwrap().id();
        let [after, old, newer, worn, tired] = [0; 5].map(|_| note("").enqueue(&mut conn).unwrap().id());
        db.sql(&format!(
            "UPDATE leasehold.jobs SET blocked_by = 'jobs' WHERE id = {after}"
        ));
        db.set_time("leasehold.jobs", "expires_at", -1000, &format!("id = {old}"));
        db.sql(&format!("UPDATE leasehold.jobs SET version = 2 WHERE id = {newer}"));
        db.sql(&format!(
            "UPDATE leasehold.jobs SET generation = 9223372036854775805 WHERE id = {worn}"
        ));
        db.sql(&format!(
            "UPDATE leasehold.jobs SET attempt = 2147483647 WHERE id = {tired}"
        ));
        let free = note("").enqueue(&mut conn).unwrap().id();
        let ids = [
            held.id,
            done.id,
            discarded.id,
            cancelled,
            later,
            limited,
            call,
            after,
            old,
            newer,
            worn,
            tired,
            999_999,
            free,
        ];
        let before: Vec<_> = ids[..13].iter().map(|id| row(db, *id)).collect();
        let (rows, _) = choose(&mut conn, &ids);
        let names: Vec<_> = rows.iter().map(|row| name(&row.found)).collect();
        assert_eq!(
            names,
            [
                "running",
                "completed",
                "discarded",
                "cancelled",
                "not due",
                "limit",
                "not served",
                "jobs",
                "expired",
                "not served",
                "not served",
                "not served",
                "missing",
                "claimed",
            ]
        );
        assert_eq!(ids[..13].iter().map(|id| row(db, *id)).collect::<Vec<_>>(), before);
        // And what a caller may want to know of it.
        let now = i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let is_about_ms = |ms: i64, expected: i64| (ms - now - expected).abs() < 20_000;
        match &rows[0].found {
            SelectedAs::Running {
                generation,
                worker,
                lease_until_ms,
            } => {
                assert_eq!(*generation, 1);
                let stored = db.text(&format!(
                    "SELECT CAST(worker AS text) FROM leasehold.jobs WHERE id = {}",
                    held.id
                ));
                assert_eq!(Some(worker), stored.as_ref());
                assert!(is_about_ms(*lease_until_ms, 60_000));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(rows[1].found, SelectedAs::Ended { finished_at_ms, .. } if is_about_ms(finished_at_ms, 0)));
        assert!(matches!(rows[4].found, SelectedAs::NotDue { run_at_ms } if is_about_ms(run_at_ms, 600_000)));
        assert!(
            matches!(&rows[5].found, SelectedAs::ByLimit { kind, limit_key } if kind == "limited" && limit_key.starts_with("limit:"))
        );
        assert!(matches!(&rows[6].found, SelectedAs::NotServed { kind, version: 1 } if kind == "call"));
        assert_eq!(
            rows.iter().map(|row| row.id).collect::<Vec<_>>(),
            ids.map(|id| (id != 999_999).then_some(id))
        );
    }
);

conformance!(
    fn a_chosen_job_ignores_queue_priority_and_age_and_honours_every_pause(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        notes(&mut conn, 2);
        let elsewhere = EnqueueOptions::new().queue("mail").priority(-100);
        let [queue, kind, all] = [0; 3].map(|_| note("").enqueue_with(&mut conn, &elsewhere).unwrap().id());
        for (scope, pause) in [("queue", "mail"), ("kind", "note"), ("all", "")] {
            conn.pause(&schema, scope, pause, "me", "why").unwrap();
            assert_eq!(answers(&mut conn, &[queue, kind, all]), ["paused"; 3], "{scope}");
            conn.resume(&schema, scope, pause).unwrap();
        }
        conn.pause(&schema, "queue", "other", "me", "why").unwrap();
        conn.pause(&schema, "kind", "mail", "me", "why").unwrap();
        assert_eq!(answers(&mut conn, &[queue, kind, all]), ["claimed"; 3]);
    }
);

conformance!(
    fn a_job_that_has_come_due_is_claimable_before_anybody_promotes_it(db: &mut Db) {
        let mut conn = migrated(db);
        let later = EnqueueOptions::new().delay(Duration::from_secs(600));
        let id = note("").enqueue_with(&mut conn, &later).unwrap().id();
        let limited = Limited {}.enqueue_with(&mut conn, &later).unwrap().id();
        assert_eq!(answers(&mut conn, &[id, limited]), ["not due"; 2]);
        db.set_time("leasehold.jobs", "run_at", -1000, "CAST(scheduled AS integer) = 1");
        // A limit holds for it from when it comes due.
        assert_eq!(answers(&mut conn, &[id, limited]), ["claimed", "limit"]);
        let scheduled =
            "SELECT count(*) FROM leasehold.jobs WHERE state = 'running' AND CAST(scheduled AS integer) = 1";
        assert_eq!(db.integer(scheduled), 0);
    }
);

conformance!(
    fn an_admitted_job_is_claimable_and_its_neighbour_is_not(db: &mut Db) {
        let mut conn = migrated(db);
        let [first, second] = [0; 2].map(|_| Limited {}.enqueue(&mut conn).unwrap().id());
        let limit = limit_of::<Limited>();
        assert_eq!(Limited::LIMIT, Limit::none().concurrency(1));
        admit_all(&mut conn, &default_schema(), std::slice::from_ref(&limit)).unwrap();
        assert_eq!(answers(&mut conn, &[second, first]), ["limit", "claimed"]);
    }
);

conformance!(
    fn no_list_is_too_odd(db: &mut Db) {
        let mut conn = migrated(db);
        let id = notes(&mut conn, 1)[0];
        assert!(answers(&mut conn, &[]).is_empty());
        let odd = [i64::MIN, -1, 0, i64::MAX, i64::MAX - 1, id];
        assert_eq!(
            answers(&mut conn, &odd),
            ["missing", "missing", "missing", "missing", "missing", "claimed"]
        );
        assert_eq!(answers(&mut conn, &odd)[5], "running");
        // Nothing is run by a program that runs nothing.
        let other = notes(&mut conn, 1)[0];
        let rows = conn
            .claim_selected(&default_schema(), &request(Chosen::Ids(&[other]), &[]))
            .unwrap();
        assert_eq!(name(&rows[0].found), "not served");
        // A program that runs version 3 runs those before, too.
        let runs = [runs_kind("note", 3)];
        let rows = conn
            .claim_selected(&default_schema(), &request(Chosen::Ids(&[other]), &runs))
            .unwrap();
        assert_eq!(name(&rows[0].found), "claimed");
    }
);

conformance!(
    fn a_thousand_are_claimed_in_one_statement_in_the_order_asked(db: &mut Db) {
        let mut conn = migrated(db);
        let mut ids = notes(&mut conn, 1000);
        ids.reverse();
        let (rows, lease_token) = choose(&mut conn, &ids);
        assert!(rows.iter().map(|row| claimed_row(row).id).eq(ids.iter().copied()));
        let tokens = "SELECT CAST(lease_token AS text) FROM leasehold.jobs GROUP BY lease_token";
        assert_eq!(db.text(tokens).unwrap(), lease_token.to_string());
    }
);

conformance!(
    fn keys_name_jobs_whatever_is_in_them(db: &mut Db) {
        let mut conn = migrated(db);
        let given = [
            " ",
            "a'b\"c",
            "ключ",
            "{}",
            "null",
            "$1",
            "%",
            "\u{1F600}",
            &"k".repeat(200),
        ];
        let mut ids = Vec::new();
        for key in given {
            let options = EnqueueOptions::new().idempotency_key(key);
            ids.push(Some(note(key).enqueue_with(&mut conn, &options).unwrap().id()));
        }
        let runs = runs();
        let stored: Vec<std::string::String> = db
            .texts("SELECT key FROM leasehold.unique_keys ORDER BY job_id")
            .into_iter()
            .map(Option::unwrap)
            .collect();
        let mut asked = stored.clone();
        asked.insert(3, "idempotency:nobody".to_owned());
        ids.insert(3, None);
        let rows = claim_selected(&mut conn, &default_schema(), &request(Chosen::Keys(&asked), &runs)).unwrap();
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
        for (place, row) in rows.iter().enumerate() {
            assert_eq!(name(&row.found), if place == 3 { "missing" } else { "claimed" });
        }
        // A key outlives its job, and its time ends it.
        db.set_time(
            "leasehold.unique_keys",
            "expires_at",
            -1000,
            &format!("key = '{}'", stored[0]),
        );
        let rows = claim_selected(
            &mut conn,
            &default_schema(),
            &request(Chosen::Keys(&stored[..2]), &runs),
        )
        .unwrap();
        assert_eq!(
            rows.iter().map(|row| name(&row.found)).collect::<Vec<_>>(),
            ["missing", "running"]
        );
    }
);

conformance!(
    fn a_unique_key_names_the_job_that_has_it(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Keyed { n: 7 }.enqueue(&mut conn).unwrap().id();
        let key = db.text("SELECT key FROM leasehold.unique_keys").unwrap();
        let (keys, runs) = ([key], runs());
        let request = request(Chosen::Keys(&keys), &runs);
        let rows = claim_selected(&mut conn, &default_schema(), &request).unwrap();
        assert_eq!((rows[0].id, name(&rows[0].found)), (Some(id), "claimed"));
        let fence = fence_of(claimed_row(&rows[0]), request.lease_token);
        conn.finish(&default_schema(), &[fence]).unwrap();
        // By default it keeps the key until it ends.
        let rows = claim_selected(&mut conn, &default_schema(), &request).unwrap();
        assert_eq!((rows[0].id, name(&rows[0].found)), (None, "missing"));
    }
);
