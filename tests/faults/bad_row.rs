//! One row that the database will not let go, among others.

use std::time::Duration;

use leasehold::{Batch, EnqueueOptions, Job, JobError, Schema, Workflow, batch};

use crate::probe::*;

/// Claims a probe for somebody who never comes back.
fn claimed<C: Backend>(conn: &mut C, text: &str) -> i64 {
    let id = probe(text).enqueue(conn).unwrap().id();
    let serves = [Served {
        queue: "default".to_owned(),
        kind: "probe".to_owned(),
        version: 1,
    }];
    let request = ClaimRequest {
        serves: &serves,
        limit: 1,
        lease_token: uuid::Uuid::new_v4(),
        worker: uuid::Uuid::new_v4(),
        begun: true,
        counted: &[],
        oldest: false,
        behind: &[],
    };
    let rows = conn.claim(&leasehold::Schema::default(), &request).unwrap();
    assert_eq!(rows[0].id, id);
    id
}

conformance!(
    fn a_job_that_the_database_keeps_from_ending_does_not_stop_the_sweep_of_the_others(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = ["first", "kept", "last", "more"].map(|text| claimed(&mut conn, text));
        db.sql("CREATE TABLE notes (job_id bigint REFERENCES leasehold.jobs (id))");
        db.sql(&format!("INSERT INTO notes VALUES ({})", ids[1]));
        db.sql("UPDATE leasehold.jobs SET attempt = max_attempts WHERE id IN (SELECT job_id FROM notes)");
        db.set_time("leasehold.jobs", "lease_until", -1000, "state = 'running'");
        let running = worker(db, |_, lease| lease.finish()).start().unwrap();
        wait_completed(&running, 3);
        assert_eq!(standing(db, ids[1]), "running");
        // As soon as it may end, it does.
        db.sql("DELETE FROM notes");
        eventually(SOON, "it is discarded", || running.counts().discarded == 1);
    }
);

conformance!(
    fn a_waiting_job_that_the_database_keeps_from_ending_does_not_stop_what_follows_for_the_others(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE notes (job_id bigint REFERENCES leasehold.jobs (id))");
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let workflow = Workflow::new();
            let first = workflow.add(&probe("no"));
            let second = workflow.add(&probe("yes")).after(first);
            waiting.push(workflow.enqueue(&mut conn).unwrap().id_of(second));
        }
        db.sql(&format!("INSERT INTO notes VALUES ({})", waiting[1]));
        let running = worker(db, |job, lease| match job.text.as_str() {
            "no" => Err(JobError::discard("no")),
            _ => lease.finish(),
        });
        let running = running.start().unwrap();
        for id in [waiting[0], waiting[2]] {
            eventually(SOON, "it is cancelled", || standing(db, id).starts_with("cancelled"));
        }
        let batch = Batch::new("beside").add(&probe("yes")).on_finished(&probe("yes"));
        let id = batch.enqueue(&mut conn).unwrap().id;
        batch::wait_for(&mut conn, &Schema::default(), id, SOON, |_| {}).unwrap();
        assert_eq!(standing(db, waiting[1]), "ready");
        // As soon as it may end, it does.
        db.sql("DELETE FROM notes");
        eventually(SOON, "it is cancelled, too", || {
            standing(db, waiting[1]).starts_with("cancelled")
        });
        eventually(SOON, "what follows on the batch has ended, too", || {
            db.integer("SELECT count(*) FROM leasehold.jobs") == 0
        });
        // One that cannot be let go keeps no program from ending.
        drop(running);
        let workflow = Workflow::new();
        let first = workflow.add(&probe("no"));
        let second = workflow.add(&probe("yes")).after(first);
        let kept = workflow.enqueue(&mut conn).unwrap().id_of(second);
        db.sql(&format!("INSERT INTO notes VALUES ({kept})"));
        let worker = worker(db, |_, _| Err(JobError::discard("no"))).patience(Duration::from_millis(50));
        assert_eq!(worker.run_until_empty().unwrap().counts.discarded, 1);
        assert_eq!(standing(db, kept), "ready");
    }
);

conformance!(
    /// After a sequence was set back, an id may be given twice: what ends later counts, and those beside it end with it.
    fn a_job_whose_id_is_among_the_finished_ones_does_not_keep_its_neighbours_from_ending(db: &mut Db) {
        let mut conn = migrated(db);
        let finishing = |db: &Db| worker(db, |_, lease| lease.finish()).run_until_empty().unwrap();
        let old = probe("old").enqueue(&mut conn).unwrap().id();
        finishing(db);
        let jobs: Vec<Probe> = (0..20).map(|_| probe("new")).collect();
        let ids = Probe::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let twice = ids[7].id();
        db.sql(&format!(
            "UPDATE leasehold.finished_jobs SET id = {twice} WHERE id = {old}"
        ));
        let counts = finishing(db).counts;
        assert_eq!((counts.completed, counts.lost), (20, 0));
        let payload = format!("SELECT CAST(payload AS text) FROM leasehold.finished_jobs WHERE id = {twice}");
        assert_eq!(db.text(&payload).unwrap(), r#"{"text":"new"}"#);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs"), 20);
    }
);

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use leasehold_tests::postgres::database;

    #[test]
    fn a_run_time_without_an_end_is_refused_and_keeps_nobody_from_resting() {
        let mut db = database();
        drop(migrated(&db));
        let run_at =
            |when: &str| format!(r#"SELECT leasehold.enqueue('probe', '{{"text":""}}', '{{"run_at":"{when}"}}')"#);
        for when in ["infinity", "-infinity", "10001-01-01"] {
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.sql(&run_at(when))));
            assert!(refused.is_err(), "{when}");
        }
        db.sql(&run_at("9999-12-31T00:00:00Z"));
        let by_hand = "INSERT INTO leasehold.jobs (queue, kind, payload, max_attempts, lease_ms, run_at, scheduled) \
            VALUES ('default', 'probe', '{}', 1, 1000, 'infinity', true)";
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.sql(by_hand)));
        assert!(refused.is_err());
        let summary = worker(&db, |_, lease| lease.finish()).run_until_empty().unwrap();
        assert_eq!(summary.scheduled, 1);
    }
}
