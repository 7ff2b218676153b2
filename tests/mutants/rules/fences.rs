//! Generation, lease token and state: each is needed in each write.

use diesel::PgConnection;
use leasehold::__private::{AttemptError, Completion, End, Fence, LeaseStatements, PutBack, SettleStatements};
use leasehold::Schema;
use leasehold_tests::TestDb;

use crate::bench::Bench;
use crate::jobs::{claim, complete, enqueue};

type Write = fn(&mut PgConnection, &Fence) -> bool;

/// Every write of a worker; whether it passed.
const WRITES: [(&str, Write); 8] = [
    ("begin", |conn, fence| {
        !conn.begin(&Schema::default(), &[*fence]).unwrap().is_empty()
    }),
    ("heartbeat", |conn, fence| {
        let beats = conn.heartbeat(&Schema::default(), &[*fence]).unwrap();
        beats.iter().any(|beat| beat.renewed)
    }),
    ("complete", |conn, fence| {
        complete(conn, fence, false) == Completion::Completed
    }),
    ("complete strictly", |conn, fence| {
        complete(conn, fence, true) == Completion::Completed
    }),
    ("finish", |conn, fence| {
        !conn.finish(&Schema::default(), &[*fence]).unwrap().is_empty()
    }),
    ("release", |conn, fence| {
        !conn.release(&Schema::default(), &[*fence]).unwrap().is_empty()
    }),
    ("put back", |conn, fence| {
        let how = PutBack {
            delay_ms: 0,
            uses_attempt: true,
            takes_away: false,
            error: None,
        };
        conn.put_back(&Schema::default(), fence, &how).unwrap() == 1
    }),
    ("end", |conn, fence| {
        let error = AttemptError {
            cause: "error",
            error: "why".to_owned(),
        };
        let how = End {
            state: "discarded",
            reason: None,
            takes_away: false,
            error: Some(error),
        };
        conn.end(&Schema::default(), fence, &how).unwrap() == 1
    }),
];

/// Claims a job for each write, changes its row as `change` says, and tries the write under the fence that was told.
fn left_alone(bench: &mut Bench, change: &str) -> Result<(), String> {
    let mut passed = Vec::new();
    for (name, write) in WRITES {
        enqueue(&mut bench.direct, 1);
        let fence = claim(&mut bench.direct);
        bench
            .db
            .sql(&format!("UPDATE leasehold.jobs SET {change} WHERE id = {}", fence.id));
        if write(&mut bench.mutant, &fence) {
            passed.push(name);
        }
        bench.db.sql("DELETE FROM leasehold.jobs");
    }
    if passed.is_empty() {
        return Ok(());
    }
    Err(passed.join(", "))
}

pub(crate) fn a_row_at_another_generation_is_left_alone(bench: &mut Bench) -> Result<(), String> {
    left_alone(bench, "generation = generation + 1")
}

pub(crate) fn a_row_with_another_token_is_left_alone(bench: &mut Bench) -> Result<(), String> {
    left_alone(bench, "lease_token = gen_random_uuid()")
}

pub(crate) fn a_row_that_is_not_running_is_left_alone(bench: &mut Bench) -> Result<(), String> {
    left_alone(bench, "state = 'ready', worker = NULL")
}
