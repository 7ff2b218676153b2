//! Row locks between the owner of a job and whoever takes it over.

use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::{TestDb, conformance};

#[cfg(feature = "postgres")]
use crate::jobs::{begin_commit, claim, claim_statement, complete, control, enqueue, migrated, roll_back, standing};
#[cfg(feature = "postgres")]
use crate::session::Session;

/// A stale worker's completion waits for B, who has re-claimed the job in a transaction that `end` ends.
#[cfg(feature = "postgres")]
fn completion_behind_a_reclaim(db: &mut leasehold_tests::postgres::Database, end: &str) -> (Completion, String) {
    let mut conn = migrated(db);
    enqueue(&mut conn, 1);
    let stale = claim(&mut conn);
    db.set_time("leasehold.jobs", "lease_until", -1000, "true");
    let (mut b, z) = (control(db), Session::of(db));
    begin_commit(&mut b, None);
    assert_eq!(b.sweep(&Schema::default(), 1).unwrap().len(), 1);
    assert_eq!(claim(&mut b).generation, 3);

    let z = z.waits(db, move |z| complete(&mut z.conn, &stale, false));
    assert_eq!(z.event(db), "transactionid");
    Session::new(b).run(end);
    (z.answer().1, standing(db, stale.id))
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_15_a_stale_completion_waits_for_the_reclaim_and_then_sees_it(db: &mut Db) {
        let (completion, standing) = completion_behind_a_reclaim(db, "COMMIT");
        assert_eq!((completion, standing.as_str()), (Completion::Refused, "running/3"));
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_15b_after_a_reclaim_that_is_rolled_back_the_worker_is_the_owner_again(db: &mut Db) {
        let (completion, standing) = completion_behind_a_reclaim(db, "ROLLBACK");
        assert_eq!((completion, standing.as_str()), (Completion::Completed, "completed/1"));
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_15c_a_reclaim_waits_for_an_uncommitted_completion_and_then_finds_nothing(db: &mut Db) {
        let mut z = migrated(db);
        enqueue(&mut z, 1);
        let fence = claim(&mut z);
        db.set_time("leasehold.jobs", "lease_until", -1000, "true");
        begin_commit(&mut z, None);
        assert_eq!(z.complete(&Schema::default(), &fence, false), Ok(Completion::Completed));
        // Ours does not even wait.
        assert!(control(db).sweep(&Schema::default(), 5).unwrap().is_empty());
        let reclaim = "UPDATE leasehold.jobs SET generation = generation + 1, lease_token = gen_random_uuid(),
            lease_until = clock_timestamp() + interval '1 minute' WHERE state = 'running' AND lease_until < clock_timestamp()";
        let b = Session::of(db).waits(db, move |b| b.rows(reclaim));
        assert_eq!(b.event(db), "transactionid");
        Session::new(z).run("COMMIT");
        assert_eq!(b.answer().1, 0);
        assert!(control(db).sweep(&Schema::default(), 5).unwrap().is_empty());
        assert_eq!(standing(db, fence.id), "completed/1");
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_15_a_heartbeat_neither_waits_for_its_own_commit_nor_calls_it_lost(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 2);
        let mut fences = claim_statement(&mut conn, 2).unwrap();
        fences.sort_unstable();
        let mut z = control(db);
        begin_commit(&mut z, None);
        assert_eq!(z.complete(&Schema::default(), &fences[0], false), Ok(Completion::Completed));
        let mut beats = conn.heartbeat(&Schema::default(), &fences).unwrap();
        beats.sort_unstable_by_key(|beat| beat.id);
        let beats: Vec<_> = beats.into_iter().map(|beat| (beat.id, beat.renewed)).collect();
        assert_eq!(beats, [(fences[0].id, false), (fences[1].id, true)]);
        roll_back(&mut z);
        assert!(conn.heartbeat(&Schema::default(), &fences).unwrap().iter().all(|beat| beat.renewed));
    }
}
