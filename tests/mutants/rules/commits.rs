//! The commit and its resolution.

use diesel::PgConnection;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use leasehold::__private::{CommitStatements, Completion, Connect, Fence};
use leasehold::Schema;
use leasehold_tests::{TestDb, eventually};

use crate::bench::Bench;
use crate::jobs::{SOON, begin_commit, claim, control, enqueue, roll_back, standing, take_over};

/// How a commit is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driven {
    /// Its writes come before the fence.
    pub(crate) writes_first: bool,
    /// The fence's row count is read.
    pub(crate) reads_count: bool,
}

/// As the library drives it.
pub(crate) const RIGHTLY: Driven = Driven {
    writes_first: true,
    reads_count: true,
};

/// Commits with `writes`, whose errors the closure swallows; whether it was told as done.
fn commit(conn: &mut PgConnection, fence: &Fence, writes: &str, driven: Driven) -> bool {
    begin_commit(conn, None);
    let write = |conn: &mut PgConnection| drop(conn.batch_execute(writes));
    if driven.writes_first {
        write(conn);
    }
    let completion = conn.complete(&Schema::default(), fence, false);
    if !driven.writes_first {
        write(conn);
    }
    if driven.reads_count && !matches!(completion, Ok(Completion::Completed)) {
        roll_back(conn);
        return false;
    }
    AnsiTransactionManager::commit_transaction(conn).is_ok()
}

pub(crate) fn a_refused_commit_leaves_nothing(bench: &mut Bench, driven: Driven) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let stale = claim(&mut bench.direct);
    take_over(&mut bench.direct, stale.id);
    commit(
        &mut bench.mutant,
        &stale,
        "INSERT INTO business (writer) VALUES ('stale')",
        driven,
    );
    match bench.db.integer("SELECT count(*) FROM business") {
        0 => Ok(()),
        rows => Err(format!("{rows} rows of a stale worker")),
    }
}

pub(crate) fn a_commit_that_is_told_is_done(bench: &mut Bench, driven: Driven) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let fence = claim(&mut bench.direct);
    let told = commit(
        &mut bench.mutant,
        &fence,
        "INSERT INTO business (writer) VALUES (NULL)",
        driven,
    );
    let is = standing(&mut bench.db, fence.id);
    if told == is.starts_with("completed") {
        return Ok(());
    }
    Err(format!("it was told as done, and is {is}"))
}

pub(crate) fn a_strict_commit_is_judged_after_its_wait(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let fence = claim(&mut bench.direct);
    begin_commit(&mut bench.mutant, None);
    // It ends after the transaction has begun, and before the business's writes are done.
    bench
        .db
        .set_time("leasehold.jobs", "lease_until", 1, "state = 'running'");
    let ended = "SELECT count(*) FROM leasehold.jobs WHERE lease_until <= clock_timestamp()";
    eventually(SOON, "the lease has ended", || bench.db.integer(ended) == 1);
    let completion = bench.mutant.complete(&Schema::default(), &fence, true).unwrap();
    roll_back(&mut bench.mutant);
    match completion {
        Completion::Completed => Err("it passed after the end of its lease".to_owned()),
        _ => Ok(()),
    }
}

/// A commit whose answer was lost, while the server still has it open.
pub(crate) fn a_doubt_ends_under_the_lock(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    let fence = claim(&mut bench.direct);
    begin_commit(&mut bench.direct, None);
    bench.direct.complete(&Schema::default(), &fence, false).unwrap();
    bench.mutant.begin_resolve().unwrap();
    let row = bench.mutant.lock_ownership(&Schema::default(), fence.id);
    roll_back(&mut bench.mutant);
    AnsiTransactionManager::commit_transaction(&mut bench.direct).unwrap();
    match row {
        Err(_) => Ok(()),
        Ok(row) => Err(format!("it was told as not committed ({row:?}), and then it was")),
    }
}

/// The host's table references jobs, and gets a row while a commit is resolved.
pub(crate) fn a_resolve_blocks_no_reference(bench: &mut Bench) -> Result<(), String> {
    bench
        .db
        .sql("CREATE TABLE notes (job_id bigint REFERENCES leasehold.jobs (id))");
    let id = enqueue(&mut bench.direct, 1)[0];
    bench.mutant.begin_resolve().unwrap();
    bench.mutant.lock_ownership(&Schema::default(), id).unwrap();
    let mut host = control(&bench.db);
    let written = host.batch_execute(&format!("SET lock_timeout = '300ms'; INSERT INTO notes VALUES ({id})"));
    roll_back(&mut bench.mutant);
    written.map_err(|error| error.to_string())
}
