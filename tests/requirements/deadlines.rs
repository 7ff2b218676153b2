//! The strict deadline: what it promises, and what nobody can.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::__private::*;
use leasehold::{Backend, Refusal, Schema};
use leasehold_tests::{TestDb, conformance, eventually};

#[cfg(feature = "postgres")]
use crate::jobs::claim_statement;
use crate::jobs::{
    SOON, begin_commit, claim, clock_ms, complete, control, enqueue, lease_until_ms, migrated, standing,
};
#[cfg(feature = "postgres")]
use crate::session::Session;
use crate::story::{How, commit_after};

const STRICT: How = How {
    strict: true,
    watch: false,
};

/// The lease runs out, and nobody takes the job.
fn expire<C: Backend>(conn: &mut C, id: i64) {
    assert_eq!(conn.expire_lease(&Schema::default(), id), Ok(1));
}

conformance! {
    fn s0_20_a_strict_commit_is_refused_after_the_lease_ran_out(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        assert_eq!(commit_after(db, STRICT, expire), Err(Refusal::Expired));
        assert_eq!(standing(db, id), "running/1", "it is left to the sweep");
        assert_eq!(db.integer("SELECT count(*) FROM business"), 0);

        db.sql("DELETE FROM leasehold.jobs");
        let id = enqueue(&mut conn, 1)[0];
        assert_eq!(commit_after(db, STRICT, |_, _| {}), Ok(()));
        assert_eq!(standing(db, id), "completed/1");
    }
}

/// The blockers of table 1.2.
#[cfg(feature = "postgres")]
const BLOCKERS: [(&str, &str); 4] = [
    ("SELECT FROM leasehold.jobs WHERE id = ID FOR UPDATE", "COMMIT"),
    ("SELECT FROM leasehold.jobs WHERE id = ID FOR UPDATE", "ROLLBACK"),
    ("UPDATE leasehold.jobs SET priority = priority WHERE id = ID", "COMMIT"),
    (
        "UPDATE leasehold.jobs SET priority = priority WHERE id = ID",
        "ROLLBACK",
    ),
];

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_20_a_strict_completion_that_waited_is_judged_by_when_it_stopped_waiting(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 4);
        let fences = claim_statement(&mut conn, 4).unwrap();
        let mut waiting = Vec::new();
        db.set_time("leasehold.jobs", "lease_until", 3_000, "true");
        for ((blocker, end), fence) in BLOCKERS.into_iter().zip(fences) {
            // As a handler's connection is: without the lock timeout of a control connection.
            let (mut a, z) = (Session::of(db), Session::of(db));
            a.run(&format!("BEGIN; {}", blocker.replace("ID", &fence.id.to_string())));
            let z = z.waits(db, move |z| complete(&mut z.conn, &fence, true));
            waiting.push((a, end, fence.id, z));
        }
        let valid = "SELECT count(*) FROM leasehold.jobs WHERE lease_until > clock_timestamp()";
        assert_eq!(db.integer(valid), 4, "every completion began with a valid lease");
        eventually(SOON, "the leases run out", || db.integer(valid) == 0);
        for (mut a, end, id, z) in waiting {
            a.run(end);
            assert_eq!(z.answer().1, Completion::Refused, "{end}");
            assert_eq!(standing(db, id), "running/1");
        }
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_20_a_time_test_beside_the_lock_passes_wrongly(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 2);
        let fences = claim_statement(&mut conn, 2).unwrap();
        db.set_time("leasehold.jobs", "lease_until", 2_000, "true");
        let mut waiting = Vec::new();
        for ((inside, outside), fence) in [("AND lease_until > clock_timestamp()", ""), ("", "AND l.lease_until > clock_timestamp()")]
            .into_iter().zip(&fences)
        {
            let (mut a, z) = (Session::of(db), Session::of(db));
            a.run(&format!("BEGIN; SELECT FROM leasehold.jobs WHERE id = {} FOR UPDATE", fence.id));
            let text = format!(
                "WITH l AS MATERIALIZED (
                    SELECT id, lease_until FROM leasehold.jobs WHERE id = {} AND state = 'running' {inside} FOR NO KEY UPDATE
                ) UPDATE leasehold.jobs AS j SET priority = 7 FROM l WHERE j.id = l.id {outside}",
                fence.id
            );
            waiting.push((a, z.waits(db, move |z| z.rows(&text))));
        }
        let valid = "SELECT count(*) FROM leasehold.jobs WHERE lease_until > clock_timestamp()";
        assert_eq!(db.integer(valid), 2, "both completions began with a valid lease");
        eventually(SOON, "the leases run out", || db.integer(valid) == 0);
        let rows: Vec<_> = waiting.into_iter().map(|(mut a, z)| {
            a.run("COMMIT");
            z.answer().1
        }).collect();
        assert_eq!(rows, [1, 0]);
    }
}

conformance! {
    fn s0_21_nothing_is_said_of_the_instant_of_the_commit(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 1);
        let fence = claim(&mut conn);
        db.set_time("leasehold.jobs", "lease_until", 2_000, "true");
        let until = lease_until_ms(db, fence.id);
        begin_commit(&mut conn, None);
        assert_eq!(conn.complete(&Schema::default(), &fence, true), Ok(Completion::Completed));
        eventually(SOON, "the lease runs out", || clock_ms(db) > until);
        AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
        assert_eq!(standing(db, fence.id), "completed/1");
    }
}

conformance! {
    fn s0_22_an_expired_lease_that_nobody_took_may_still_commit(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        assert_eq!(commit_after(db, How::default(), expire), Ok(()));
        assert_eq!(standing(db, id), "completed/1");
        assert_eq!(db.integer("SELECT count(*) FROM business"), 1);

        enqueue(&mut conn, 1);
        let fence = claim(&mut conn);
        expire(&mut control(db), fence.id);
        assert_eq!(complete(&mut conn, &fence, false), Completion::Completed);
    }
}
