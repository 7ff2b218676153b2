//! Sweep: expired leases are taken back, each row by its own fate.

use leasehold::__private::Fence;
use leasehold::{EnqueueOptions, Job};

use crate::support::*;

/// Claims `count` notes, `begun` or only prefetched, and lets their leases run out.
#[track_caller]
fn expired<D: TestDb>(db: &mut D, conn: &mut D::Connection, count: usize, begun: bool) -> Vec<Fence> {
    let notes: Vec<Note> = (0..count).map(|number| note(number.to_string())).collect();
    Job::enqueue_all(&notes, conn, &EnqueueOptions::new()).unwrap();
    let serves = [served("default", "note", 1)];
    let request = ClaimRequest {
        begun,
        counted: &[],
        oldest: false,
        behind: &[],
        ..request(&serves, 1000)
    };
    let mut rows = conn.claim(&default_schema(), &request).unwrap();
    rows.sort_by_key(|row| row.id);
    assert_eq!(rows.len(), count);
    db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
    rows.iter().map(|row| fence_of(row, request.lease_token)).collect()
}

fn sweep<C: Backend>(conn: &mut C, limit: i64) -> Vec<Swept> {
    let mut swept = conn.sweep(&default_schema(), limit).unwrap();
    swept.sort_by_key(|swept| swept.id);
    swept
}

fn swept(id: i64, attempt: i32, generation: i64, state: &str) -> Swept {
    Swept {
        id,
        queue: "default".to_owned(),
        kind: "note".to_owned(),
        attempt,
        generation,
        begun: true,
        state: state.to_owned(),
    }
}

/// Of a job that was only prefetched.
fn unbegun(swept: Swept) -> Swept {
    Swept { begun: false, ..swept }
}

conformance!(
    fn an_expired_lease_is_taken_back_and_its_owner_fenced_out(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = expired(db, &mut conn, 1, true)[0];
        let running = claimed(&mut conn);
        let before = row(db, running.id);
        let kept_before = kept(db, "leasehold.jobs", fence.id);
        assert_eq!(sweep(&mut conn, 10), [swept(fence.id, 1, 2, "ready")]);
        assert_eq!(standing(db, fence.id), "ready generation=2 attempt=1");
        assert!(is_free(db, fence.id));
        assert_eq!(kept(db, "leasehold.jobs", fence.id), kept_before);
        assert_eq!(row(db, running.id), before);
        assert!(sweep(&mut conn, 10).is_empty());
        let errors = conn.job_errors(&default_schema(), fence.id).unwrap();
        let told: Vec<_> = errors
            .iter()
            .map(|error| {
                (
                    error.attempt,
                    error.generation,
                    error.cause.as_str(),
                    error.error.as_str(),
                )
            })
            .collect();
        assert_eq!(told, [(1, 1, "lease expired", "the lease ran out without a heartbeat")]);
        // Before anybody claims it again.
        assert!(conn.finish(&default_schema(), &[fence]).unwrap().is_empty());
        assert_eq!(claim_notes(&mut conn)[0].generation, 3);
    }
);

conformance!(
    fn a_job_that_was_only_prefetched_has_its_attempt_back(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = expired(db, &mut conn, 1, false)[0];
        db.sql("UPDATE leasehold.jobs SET max_attempts = 1");
        assert_eq!(sweep(&mut conn, 10), [unbegun(swept(fence.id, 0, 2, "ready"))]);
        assert_eq!(standing(db, fence.id), "ready generation=2 attempt=0");
        assert!(conn.job_errors(&default_schema(), fence.id).unwrap().is_empty());
    }
);

conformance!(
    fn a_job_whose_attempts_are_used_up_is_discarded_by_the_sweep(db: &mut Db) {
        let mut conn = migrated(db);
        let id = expired(db, &mut conn, 1, true)[0].id;
        db.sql("UPDATE leasehold.jobs SET max_attempts = 1");
        assert_eq!(sweep(&mut conn, 10), [swept(id, 1, 2, "discarded")]);
        assert_eq!(standing(db, id), "discarded generation=2 attempt=1: lease expired");
        assert_eq!(conn.job_errors(&default_schema(), id).unwrap().len(), 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    fn a_swept_job_that_was_asked_to_stop_is_cancelled(db: &mut Db) {
        let mut conn = migrated(db);
        let begun = expired(db, &mut conn, 1, true)[0];
        let prefetched = expired(db, &mut conn, 1, false)[0];
        for id in [begun.id, prefetched.id] {
            assert_eq!(conn.request_cancel(&default_schema(), &[id]).unwrap(), [id]);
        }
        // That its attempts are used up makes it no failure: it was to stop.
        db.sql("UPDATE leasehold.jobs SET max_attempts = 1");
        let expected = [
            swept(begun.id, 1, 2, "cancelled"),
            unbegun(swept(prefetched.id, 1, 2, "cancelled")),
        ];
        assert_eq!(sweep(&mut conn, 10), expected);
        assert_eq!(
            standing(db, begun.id),
            "cancelled generation=2 attempt=1: lease expired"
        );
        assert_eq!(conn.job_errors(&default_schema(), begun.id).unwrap().len(), 1);
        assert!(conn.job_errors(&default_schema(), prefetched.id).unwrap().is_empty());
    }
);

conformance!(
    fn a_sweep_takes_as_many_as_it_may_in_the_order_of_their_ids(db: &mut Db) {
        let mut conn = migrated(db);
        let ids: Vec<i64> = expired(db, &mut conn, 7, true).iter().map(|fence| fence.id).collect();
        db.set_time("leasehold.jobs", "lease_until", -60_000, &format!("id = {}", ids[6]));
        let mut taken = Vec::new();
        for expected in [3, 3, 1, 0] {
            let swept = sweep(&mut conn, 3);
            assert_eq!(swept.len(), expected);
            taken.extend(swept.iter().map(|swept| swept.id));
        }
        assert_eq!(taken, ids);
    }
);

conformance!(
    fn one_odd_row_does_not_fail_the_sweep_of_the_others(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = expired(db, &mut conn, 4, true);
        let ids: Vec<i64> = fences.iter().map(|fence| fence.id).collect();
        // No generation is left for it; an end is there already; an error of this generation is there already.
        db.sql(&format!(
            "UPDATE leasehold.jobs SET generation = {} WHERE id = {}",
            i64::MAX - 1,
            ids[0]
        ));
        db.sql(&format!(
            "UPDATE leasehold.jobs SET max_attempts = 1 WHERE id = {}",
            ids[1]
        ));
        let ended = claimed(&mut conn);
        conn.finish(&default_schema(), &[ended]).unwrap();
        db.sql(&format!("UPDATE leasehold.finished_jobs SET id = {}", ids[1]));
        let error = |id| {
            let at = if Db::BACKEND == "sqlite" { "0" } else { "now()" };
            format!(
                "INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error) VALUES ({id}, 1, 1, {at}, 'error', 'odd')"
            )
        };
        db.sql(&error(ids[2]));
        let states: Vec<_> = sweep(&mut conn, 10)
            .into_iter()
            .map(|swept| (swept.id, swept.state))
            .collect();
        let state = |place: usize, state: &str| (ids[place], state.to_owned());
        assert_eq!(states, [state(1, "discarded"), state(2, "ready"), state(3, "ready")]);
        assert_eq!(
            standing(db, ids[0]),
            format!("running generation={} attempt=1", i64::MAX - 1)
        );
        assert_eq!(standing(db, ids[1]), "discarded generation=2 attempt=1: lease expired");
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_sweep_does_not_wait_for_a_job_that_is_being_committed(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = expired(db, &mut conn, 2, true);
        let mut committing = open(db);
        committing
            .transaction(|tx| {
                assert!(tx.lock_ownership(&default_schema(), fences[0].id)?.is_some());
                assert_eq!(sweep(&mut conn, 1), [swept(fences[1].id, 1, 2, "ready")]);
                assert_eq!(tx.finish(&default_schema(), &fences)?, [fences[0].id]);
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
        assert_eq!(standing(db, fences[0].id), "completed generation=1 attempt=1");
    }
);
