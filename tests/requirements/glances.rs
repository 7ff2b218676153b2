//! What people see at a glance reads a bounded number of rows: beside the rows of `bounds`, 100,000 failed attempts, as many
//! jobs that waited for one, and a batch of as many.

use std::time::Duration;

use leasehold::__private::*;
use leasehold::inspect::{self, Filter, Held, State};
use leasehold::{Schema, batch};
use leasehold_tests::{TestDb, conformance};

use crate::bounded::Bounded;
use crate::bounds::fill;

/// A finished job for which 100,000 jobs waited.
const BUSY: i64 = 10_000_001;

fn fill_more<Db: TestDb>(db: &mut Db) {
    fill(db);
    let now = if Db::BACKEND == "postgres" { "now()" } else { "1" };
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)";
    db.sql(&format!(
        "{many} INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error)
         SELECT 10000000 + i, 1, 1, {now}, 'error', 'no' FROM n;
         {many} INSERT INTO leasehold.job_waits (job_id, on_job_id, name, anyway) SELECT 20000000 + i, {BUSY}, 'x', {yes} FROM n;
         INSERT INTO leasehold.batches (id, name, created_at) VALUES (1, 'large', {now});
         UPDATE leasehold.jobs SET batch_id = 1 WHERE kind = 'unknown'",
        yes = if Db::BACKEND == "postgres" { "true" } else { "1" }
    ));
}

fn look<C: Bounded>(conn: &mut C, name: &str, empty: bool) {
    let schema = Schema::default();
    let said = |what: &str| format!("{name}: {what}");
    let many = |count: usize, least: usize| assert!(empty || count >= least, "{count}");
    // 10,000 each that are ready, scheduled and blocked, of one queue.
    conn.assert_limited(&said("queues"), 31_000, 70_000, |conn| {
        let queues = inspect::queues(conn, &schema).unwrap();
        many(queues.len(), 1);
        assert!(
            queues
                .iter()
                .all(|queue| queue.ready.rows == 10_000 && queue.ready.more && queue.oldest.is_some())
        );
    });
    // Of a queue in which every kind has more.
    let serves = ["note", "unknown", "pair"].map(|kind| Served {
        queue: "default".to_owned(),
        kind: kind.to_owned(),
        version: 1,
    });
    conn.assert_limited(&said("depths"), 10_100, 25_000, |conn| {
        let depths = conn.depths(&schema, &serves, 10_000).unwrap();
        assert!(
            depths.len() == 1 && (empty || depths[0].ready == 10_000 && depths[0].oldest_ms > 0),
            "{depths:?}"
        );
    });
    // 5,000 each that completed and were discarded.
    conn.assert_limited(&said("ended"), 11_000, 15_000, |conn| {
        many(inspect::ended(conn, &schema).unwrap().len(), 1);
    });
    conn.assert_limited(&said("workers"), 20, 50, |conn| {
        assert!(inspect::workers(conn, &schema).unwrap().is_empty());
    });
    conn.assert_limited(&said("running"), 20, 50, |conn| {
        assert!(
            inspect::running(conn, &schema, &Held::new().kind("note"), 0, 100)
                .unwrap()
                .is_empty()
        );
    });
    // 1,666 of two states in one minute, which may be cut in two, and a hundred with their time.
    conn.assert_limited(&said("rates"), 7_000, 15_000, |conn| {
        assert_eq!(
            inspect::rates(conn, &schema, Duration::from_secs(60), 60)
                .unwrap()
                .len(),
            60
        );
    });
    conn.assert_limited(&said("failures"), 200, 600, |conn| {
        many(inspect::failures(conn, &schema, 50).unwrap().len(), 50);
    });
    conn.assert_limited(&said("life"), 50, 150, |conn| {
        many(usize::from(inspect::life(conn, &schema, BUSY).unwrap().is_some()), 1);
    });
    conn.assert_limited(&said("waits"), 5_000, 20_000, |conn| {
        many(inspect::waits(conn, &schema, BUSY, 500).unwrap().jobs.len(), 500);
    });
    // 10,000 of each table are looked up, and as many in both.
    for filter in [
        Filter::new(),
        Filter::new().state(State::Ready),
        Filter::new().state(State::Discarded),
        Filter::new().batch(1),
        Filter::new().batch(1).state(State::Ready),
    ] {
        conn.assert_limited(&said("search"), 45_000, 150_000, |conn| {
            let page = inspect::search(conn, &schema, &filter.clone().queue("nowhere"), None, 100).unwrap();
            assert!(page.jobs.is_empty() && (empty || page.looked == 10_000));
        });
        conn.assert_limited(&said("search of the newest"), 25_000, 30_000, |conn| {
            many(
                inspect::search(conn, &schema, &filter, None, 50).unwrap().jobs.len(),
                50,
            );
        });
    }
    conn.assert_limited(&said("search of running jobs"), 20, 50, |conn| {
        let running = Filter::new().state(State::Running);
        assert!(
            inspect::search(conn, &schema, &running, None, 50)
                .unwrap()
                .jobs
                .is_empty()
        );
    });
    // 5,000 of one batch.
    conn.assert_limited(&said("batches"), 5_100, 12_000, |conn| {
        many(batch::list(conn, &schema, None, 20).unwrap().len(), 1);
    });
    // 10,000 for the number and as many by what they wait for.
    conn.assert_limited(&said("batch"), 21_000, 45_000, |conn| {
        let glance = batch::glance(conn, &schema, 1).unwrap();
        many(glance.map_or(0, |glance| usize::from(glance.ready.more)), 1);
    });
}

conformance! {
    fn what_a_glance_reads_does_not_grow_with_what_is_there(db: &mut Db) {
        leasehold::migrate(&mut db.connect()).unwrap();
        // A plan made while the tables were empty must do for full ones.
        let mut early: Connection = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        look(&mut early, "empty tables", true);
        fill_more(db);
        look(&mut early, "a plan of empty tables", false);
        let mut late: Connection = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        look(&mut late, "a plan of full tables", false);
        // By itself the database gets to know its rows a minute later.
        db.sql("ANALYZE");
        look(&mut early, "a plan of known tables", false);
    }
}
