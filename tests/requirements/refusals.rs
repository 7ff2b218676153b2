//! A refused commit says why, and leaves nothing behind.

use leasehold::__private::*;
use leasehold::inspect::State;
use leasehold::{Backend, Refusal, Schema};
use leasehold_tests::{TestDb, conformance};

use crate::jobs::{claim, complete, enqueue, migrated, new_job, standing, sweep_expired, take_over};
use crate::story::{How, commit_after, commit_in_worker};

/// A statement on the jobs' table, from outside of the queue.
fn tamper<C: Backend>(conn: &mut C, statement: &str) {
    let table = if C::NAME == "sqlite" {
        "leasehold_jobs"
    } else {
        "leasehold.jobs"
    };
    conn.batch_execute(&statement.replace("jobs", table)).unwrap();
}

/// Somebody else takes the job over and ends it.
fn end<C: Backend>(conn: &mut C, id: i64, state: &'static str) {
    let owner = take_over(conn, id);
    let how = End {
        state,
        reason: None,
        takes_away: false,
        error: None,
    };
    assert_eq!(conn.end(&Schema::default(), &owner, &how), Ok(1));
}

fn finished(state: State) -> Refusal {
    Refusal::AlreadyFinished { state }
}

/// How a commit must end that `meanwhile` got in the way of, and where the job is then.
struct Case<C> {
    meanwhile: fn(&mut C, i64),
    refusal: Refusal,
    standing: &'static str,
}

fn cases<C: Backend>() -> Vec<Case<C>> {
    let case = |meanwhile, refusal, standing| Case {
        meanwhile,
        refusal,
        standing,
    };
    vec![
        case(
            |c, id| {
                take_over(c, id);
            },
            Refusal::Lost { generation: 3 },
            "running/3",
        ),
        case(|c, id| sweep_expired(c, id), Refusal::Lost { generation: 2 }, "ready/2"),
        case(
            |c, id| tamper(c, &format!("DELETE FROM jobs WHERE id = {id}")),
            Refusal::Missing,
            "none",
        ),
        case(
            |c, id| {
                let owner = take_over(c, id);
                complete(c, &owner, false);
            },
            finished(State::Completed),
            "completed/3",
        ),
        case(
            |c, id| end(c, id, "discarded"),
            finished(State::Discarded),
            "discarded/3",
        ),
        case(|c, id| end(c, id, "cancelled"), Refusal::Cancelled, "cancelled/3"),
        case(
            |c, id| {
                assert_eq!(
                    c.end_open(&Schema::default(), &[id], true, State::Cancelled, "why"),
                    Ok(vec![id])
                )
            },
            Refusal::Cancelled,
            "cancelled/2",
        ),
        // The claim is forgotten; and then the same generation is given out again.
        case(
            |c, id| forget(c, id),
            Refusal::DurabilityLoss { generation: 0 },
            "ready/0",
        ),
        case(
            |c, id| {
                forget(c, id);
                assert_eq!(claim(c).generation, 1);
            },
            Refusal::DurabilityLoss { generation: 1 },
            "running/1",
        ),
    ]
}

/// As a database does that loses the commit of a claim.
fn forget<C: Backend>(conn: &mut C, id: i64) {
    tamper(
        conn,
        &format!(
            "UPDATE jobs SET state = 'ready', generation = 0, attempt = 0, lease_token = NULL, lease_until = NULL,
             worker = NULL, begun = false WHERE id = {id}"
        ),
    );
}

conformance! {
    fn s0_17_zero_rows_are_told_apart_and_never_taken_for_success(db: &mut Db) {
        let mut conn = migrated(db);
        for Case { meanwhile, refusal, standing: expected } in cases() {
            let id = enqueue(&mut conn, 1)[0];
            let ended = commit_after(db, How::default(), meanwhile);
            assert_eq!(ended, Err(refusal.clone()));
            assert_eq!(standing(db, id), expected, "{refusal:?}: the late worker changed nothing");
            assert_eq!(db.integer("SELECT count(*) FROM business"), 0, "{refusal:?}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
}

conformance! {
    fn s0_17_the_runtime_does_not_settle_what_was_refused(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        commit_in_worker::<Connection>(db.url(), How::default(), |b, id| {
            take_over(b, id);
        }).unwrap_err();
        // The owner's attempt is the second, and no failure was noted but the lease that ran out.
        assert_eq!(db.integer(&format!("SELECT attempt FROM leasehold.jobs WHERE id = {id}")), 2);
        assert_eq!(db.texts("SELECT cause FROM leasehold.job_errors"), [Some("lease expired".to_owned())]);
    }
}

conformance! {
    fn s0_23_a_refused_commit_leaves_neither_the_business_row_nor_the_outbox_row(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 1);
        let rows = "SELECT (SELECT count(*) FROM business) + 10 * (SELECT count(*) FROM leasehold.outbox_events)";
        commit_in_worker::<Connection>(db.url(), How::default(), |b, id| {
            take_over(b, id);
        }).unwrap_err();
        assert_eq!(db.integer(rows), 0);

        db.sql("DELETE FROM leasehold.jobs");
        enqueue(&mut conn, 1);
        commit_in_worker::<Connection>(db.url(), How::default(), |_, _| {}).unwrap();
        assert_eq!(db.integer(rows), 11);
    }
}

conformance! {
    fn s0_11_an_expired_lease_is_no_kill_signal(db: &mut Db) {
        let mut conn = migrated(db);
        let mut job = new_job(3_000);
        job.max_attempts = 100;
        let id = conn.insert(&Schema::default(), &[job]).unwrap()[0];
        // The handler runs on, is told, and its commit is refused.
        let watch = How { watch: true, ..How::default() };
        let ended = commit_in_worker::<Connection>(db.url(), watch, |b, id| {
            // So that nobody takes the job from its new owner; the worker goes on by what its claim said.
            tamper(b, &format!("UPDATE jobs SET lease_ms = 3600000 WHERE id = {id}"));
            take_over(b, id);
        });
        assert!(matches!(ended, Err(Refusal::Lost { .. } | Refusal::Expired)), "{ended:?}");
        assert!(standing(db, id).starts_with("running/"));
        assert_eq!(db.integer("SELECT count(*) FROM business"), 0);
    }
}
