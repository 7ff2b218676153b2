//! Begin and heartbeat: what they write, and what the heartbeat says of each lease.

use std::time::Duration;

use leasehold::{EnqueueOptions, Job};

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);

conformance!(
    fn begin_notes_that_a_handler_has_begun_and_nothing_else(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = ["1", "2"].map(|text| note(text).enqueue(&mut conn).unwrap().id());
        let serves = [served("default", "note", 1)];
        let request = ClaimRequest {
            begun: false,
            counted: &[],
            oldest: false,
            behind: &[],
            ..request(&serves, 10)
        };
        let mut rows = conn.claim(&default_schema(), &request).unwrap();
        rows.sort_by_key(|row| row.id);
        let before = ids.map(|id| row(db, id).unwrap());
        let fence = fence_of(&rows[0], request.lease_token);
        assert_eq!(conn.begin(&default_schema(), &[fence]).unwrap(), [ids[0]]);
        let begun = row(db, ids[0]).unwrap();
        assert_ne!(begun, before[0]);
        db.sql(&format!(
            "UPDATE leasehold.jobs SET begun = NOT begun WHERE id = {}",
            ids[0]
        ));
        assert_eq!(row(db, ids[0]).unwrap(), before[0]);
        assert_eq!(row(db, ids[1]).unwrap(), before[1]);
    }
);

conformance!(
    fn a_heartbeat_renews_the_lease_from_now_and_keeps_the_fence(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = claimed_many(&mut conn, 3);
        db.set_time(
            "leasehold.jobs",
            "lease_until",
            -1000,
            &format!("id = {}", fences[0].id),
        );
        // Were the later of two ends kept, a wrong one far in the future would stay.
        db.set_time(
            "leasehold.jobs",
            "lease_until",
            9_000_000,
            &format!("id = {}", fences[1].id),
        );
        db.sql(
            "UPDATE leasehold.jobs SET lease_ms = 30000 WHERE lease_until > (SELECT min(run_at) FROM leasehold.jobs)",
        );
        db.sql(&format!(
            "UPDATE leasehold.jobs SET lease_ms = 60000 WHERE id <> {}",
            fences[2].id
        ));
        let beats = conn.heartbeat(&default_schema(), &fences).unwrap();
        assert_eq!(beats.len(), 3);
        assert!(
            beats.iter().all(|beat| beat.renewed && !beat.cancel_requested),
            "{beats:?}"
        );
        for (fence, lease) in fences.iter().zip([MINUTE, MINUTE, MINUTE / 2]) {
            let left = from_now(db, "leasehold.jobs", "lease_until", &format!("id = {}", fence.id));
            assert!(is_about(left, lease), "{left:?}");
            assert_eq!(standing(db, fence.id), "running generation=1 attempt=1");
        }
        assert_eq!(conn.finish(&default_schema(), &fences).unwrap().len(), 3);
    }
);

conformance!(
    fn a_heartbeat_tells_ours_cancelled_and_gone_apart(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = claimed_many(&mut conn, 4);
        let [ours, asked, taken, ended] = fences[..] else {
            unreachable!()
        };
        assert_eq!(conn.request_cancel(&default_schema(), &[asked.id]).unwrap(), [asked.id]);
        let owner = take_over(&mut conn, taken.id).unwrap();
        assert_eq!(conn.finish(&default_schema(), &[ended]).unwrap(), [ended.id]);
        let mut beats = conn.heartbeat(&default_schema(), &fences).unwrap();
        beats.sort_by_key(|beat| beat.id);
        let beat = |id, cancel_requested| Beat {
            id,
            renewed: true,
            cancel_requested,
        };
        assert_eq!(beats, [beat(ours.id, false), beat(asked.id, true)]);
        assert_eq!(
            conn.heartbeat(&default_schema(), &[owner]).unwrap(),
            [beat(taken.id, false)]
        );
    }
);

conformance!(
    #[skip(
        sqlite,
        "SQLite has no row locks: a heartbeat has the database to itself, or is an error"
    )]
    fn a_heartbeat_neither_waits_for_a_locked_row_nor_calls_it_gone(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = claimed_many(&mut conn, 2);
        let before = row(db, fences[0].id);
        assert_eq!(
            conn.request_cancel(&default_schema(), &[fences[1].id]).unwrap(),
            [fences[1].id]
        );
        let locked_too = row(db, fences[1].id);
        let mut other = open(db);
        other
            .transaction(|tx| {
                for fence in &fences {
                    tx.lock_ownership(&default_schema(), fence.id)?;
                }
                let mut beats = conn.heartbeat(&default_schema(), &fences)?;
                beats.sort_by_key(|beat| beat.id);
                assert!(beats.iter().all(|beat| !beat.renewed), "{beats:?}");
                assert_eq!(
                    beats.iter().map(|beat| beat.cancel_requested).collect::<Vec<_>>(),
                    [false, true]
                );
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
        assert_eq!([row(db, fences[0].id), row(db, fences[1].id)], [before, locked_too]);
    }
);

conformance!(
    fn one_heartbeat_renews_five_hundred_leases(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = claimed_many(&mut conn, 500);
        db.set_time("leasehold.jobs", "lease_until", 1000, "state = 'running'");
        let beats = conn.heartbeat(&default_schema(), &fences).unwrap();
        assert_eq!(beats.iter().filter(|beat| beat.renewed).count(), 500);
        let shortest = from_now(
            db,
            "leasehold.jobs",
            "lease_until",
            "lease_until = (SELECT min(lease_until) FROM leasehold.jobs) LIMIT 1",
        );
        assert!(is_about(shortest, MINUTE), "{shortest:?}");
    }
);

conformance!(
    fn a_guard_tells_what_was_claimed(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new().max_attempts(2).idempotency_key("key");
        let id = note("guarded").enqueue_with(&mut conn, &options).unwrap().id();
        for attempt in [1, 2] {
            let counts = run(&mut conn, |note, lease| {
                assert_eq!(note.text, "guarded");
                assert_eq!((lease.job_id(), lease.idempotency_key()), (id, "key"));
                assert_eq!((lease.attempt(), lease.is_last_attempt()), (attempt, attempt == 2));
                assert_eq!(lease.generation(), i64::from(attempt));
                assert!(!lease.is_lost() && !lease.is_cancel_requested() && lease.check().is_ok());
                let watch = lease.watch();
                assert!(!watch.is_lost() && !watch.is_cancel_requested() && is_about(watch.remaining(), MINUTE));
                Err(leasehold::JobError::retry("again"))
            });
            assert_eq!(
                (counts.retried, counts.discarded),
                if attempt == 1 { (1, 0) } else { (0, 1) }
            );
            conn.move_run_at(&default_schema(), id, 0).unwrap();
        }
    }
);
