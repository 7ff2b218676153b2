//! Looking for jobs among very many.

use std::time::Duration;

use leasehold::inspect::{self, Filter, Page, Place, State};
use leasehold::manage::{self, Cancel};
use leasehold::{Batch, EnqueueOptions, Job, JobError};
use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "keyed", unique(by = "text"))]
struct Keyed {
    text: String,
}

fn found<C: Backend>(conn: &mut C, filter: &Filter, from: Option<Place>, limit: u32) -> (Vec<i64>, Page) {
    let page = inspect::search(conn, &default_schema(), filter, from, limit).unwrap();
    (page.jobs.iter().map(|job| job.id).collect(), page)
}

/// All pages of two jobs each, from a place that went through its text.
fn in_pages<C: Backend>(conn: &mut C, filter: &Filter) -> Vec<i64> {
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let (more, page) = found(conn, filter, from, 2);
        assert!(more.len() <= 2);
        ids.extend(more);
        let Some(next) = page.next else { return ids };
        from = Some(next.to_string().parse().unwrap());
    }
}

conformance!(
    fn jobs_of_a_batch_are_found_behind_any_number_of_others(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let batch = Batch::new("old").add_all(
            &[note("a"), note("b"), note("c"), note("d"), note("e")],
            &EnqueueOptions::new(),
        );
        let batch = batch.enqueue(&mut conn).unwrap();
        let ids: Vec<i64> = batch.jobs.iter().map(|job| job.id()).collect();
        for (at, how) in [(0, Cancel::Hard), (2, Cancel::Hard)] {
            manage::cancel(&mut conn, &schema, ids[at], how, "me", "not wanted").unwrap();
        }
        manage::discard(&mut conn, &schema, ids[3], "me", "bad").unwrap();
        let another = Batch::new("new").add(&note("f")).enqueue(&mut conn).unwrap().id;
        let (now, no) = if Db::BACKEND == "postgres" {
            ("now()", "false")
        } else {
            ("1", "0")
        };
        db.sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
             INSERT INTO leasehold.jobs (queue, kind, payload, run_at, scheduled, created_at, max_attempts, lease_ms)
             SELECT 'default', 'note', '{{}}', {now}, {no}, {now}, 5, 60000 FROM n"
        ));
        let of = || Filter::new().batch(batch.id);
        let newest_first: Vec<i64> = ids.iter().rev().copied().collect();
        assert_eq!(in_pages(&mut conn, &of()), newest_first);
        assert_eq!(in_pages(&mut conn, &of().state(State::Ready)), [ids[4], ids[1]]);
        assert_eq!(in_pages(&mut conn, &of().state(State::Cancelled)), [ids[2], ids[0]]);
        assert_eq!(in_pages(&mut conn, &of().state(State::Discarded)), [ids[3]]);
        assert!(in_pages(&mut conn, &of().state(State::Completed)).is_empty());
        assert!(in_pages(&mut conn, &of().state(State::Running)).is_empty());
        assert_eq!(in_pages(&mut conn, &Filter::new().batch(another)).len(), 1);
        assert!(in_pages(&mut conn, &Filter::new().batch(another + 1)).is_empty());
    }
);

conformance!(
    fn every_condition_of_a_search_counts_and_pages_follow_each_other(db: &mut Db) {
        let mut conn = migrated(db);
        let mut ended = Vec::new();
        for text in [
            "completed",
            "discarded",
            "cancelled",
            "discarded",
            "completed",
            "completed",
        ] {
            let (id, _) = run_new(&mut conn, |note, lease| match text {
                "completed" => lease.finish(),
                "discarded" => Err(JobError::discard(format!("no {}", note.text))),
                _ => lease.cancel("no more"),
            });
            ended.push(id);
        }
        // By the time of their end, not by their id.
        for (ago, id) in [
            (-9000, ended[5]),
            (-8000, ended[0]),
            (-7000, ended[4]),
            (-6000, ended[3]),
            (-5000, ended[1]),
        ] {
            db.set_time("leasehold.finished_jobs", "finished_at", ago, &format!("id = {id}"));
        }
        let held = claimed_many(&mut conn, 3)
            .iter()
            .map(|fence| fence.id)
            .rev()
            .collect::<Vec<_>>();
        let options = EnqueueOptions::new().queue("other");
        let batch = Batch::new("b")
            .add_all(&[note("x")], &options)
            .enqueue(&mut conn)
            .unwrap();
        let ready = batch.jobs[0].id();
        let newest_first = [vec![ready], held.clone(), ended.iter().copied().rev().collect()].concat();
        for (filter, expected) in [
            (Filter::new(), newest_first.clone()),
            (Filter::new().state(State::Ready), vec![ready]),
            (Filter::new().state(State::Running), held),
            (
                Filter::new().state(State::Completed),
                vec![ended[4], ended[0], ended[5]],
            ),
            (Filter::new().state(State::Discarded), vec![ended[1], ended[3]]),
            (Filter::new().state(State::Cancelled), vec![ended[2]]),
            (Filter::new().kind("note"), newest_first),
            (Filter::new().kind("other"), vec![]),
            (Filter::new().queue("other"), vec![ready]),
            (Filter::new().batch(batch.id), vec![ready]),
            (Filter::new().error("no once"), vec![ended[3], ended[1]]),
            (Filter::new().error("no more"), vec![ended[2]]),
            (
                Filter::new().older_than(Duration::from_millis(6500)),
                vec![ended[5], ended[4], ended[0]],
            ),
            (Filter::new().state(State::Completed).queue("other"), vec![]),
        ] {
            let (ids, page) = found(&mut conn, &filter, None, 100);
            assert_eq!(ids, expected, "{filter:?}");
            assert!(
                page.next.is_none() && page.looked >= u64::try_from(ids.len()).unwrap(),
                "{filter:?}: {page:?}"
            );
            assert_eq!(in_pages(&mut conn, &filter), expected, "{filter:?}");
        }
        for text in ["", "x", "1.", ".1", "1.2.3", "-1.5", "999999999999999999.1"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
);

conformance!(
    fn a_search_that_finds_nothing_says_where_it_ended(db: &mut Db) {
        let mut conn = migrated(db);
        let now = if Db::BACKEND == "postgres" { "now()" } else { "1" };
        let first = note("first").enqueue(&mut conn).unwrap().id();
        db.sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO leasehold.finished_jobs (id, queue, kind, version, payload, state, priority, run_at, attempt,
                 max_attempts, generation, lease_ms, idempotency_key, created_at, finished_at)
             SELECT 1000 + i, 'default', 'other', 1, '{{}}', 'completed', 0, {now}, 1, 5, 1, 60000, 'k', {now}, {now} FROM n"
        ));
        let filter = Filter::new().kind("note");
        let (ids, page) = found(&mut conn, &filter, None, 10);
        assert_eq!((ids.len(), page.looked), (0, 10_000));
        assert_eq!(page.next.map(|place| place.to_string()).as_deref(), Some("1001"));
        let (ids, page) = found(&mut conn, &filter, page.next, 10);
        assert_eq!((ids, page.looked, page.next), (vec![first], 1, None));
        // All of one instant, so that the place is told by the id, too.
        let ended = Filter::new().state(State::Completed).kind("note");
        let (_, page) = found(&mut conn, &ended, None, 10);
        assert_eq!((page.looked, page.next.is_some()), (10_000, true));
        let (_, page) = found(&mut conn, &ended, page.next, 10);
        assert_eq!((page.looked, page.next), (0, None));
    }
);

conformance!(
    fn a_job_is_found_by_its_keys(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let job = Keyed { text: "a".to_owned() };
        let options = EnqueueOptions::new().idempotency_key("order 7");
        let id = job.enqueue_with(&mut conn, &options).unwrap().id();
        note("other").enqueue(&mut conn).unwrap();
        assert_eq!(
            inspect::by_idempotency_key(&mut conn, &schema, "order 7").unwrap(),
            Some(id)
        );
        assert_eq!(
            inspect::by_idempotency_key(&mut conn, &schema, "order 8").unwrap(),
            None
        );
        let key = job.unique_key().unwrap();
        let mut by_key =
            |kind: &str, queue, key: &str| inspect::by_unique_key(&mut conn, &schema, kind, queue, key).unwrap();
        assert_eq!(by_key("keyed", None, &key), Some(id));
        assert_eq!(
            (by_key("note", None, &key), by_key("keyed", Some("default"), &key)),
            (None, None)
        );
        assert_eq!(by_key("keyed", None, "b"), None);
    }
);
