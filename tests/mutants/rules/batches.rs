//! Many rows in one statement.

use std::thread;

use diesel::PgConnection;
use diesel::connection::SimpleConnection;
use diesel::result::QueryResult;
use leasehold::__private::{Fence, SettleStatements};
use leasehold::Schema;
use leasehold_tests::{TestDb, eventually};

use crate::bench::Bench;
use crate::jobs::{SOON, claim_statement, control, enqueue};

/// With the statistics of a small table the server reads another plan into the same text.
pub(crate) fn a_limit_is_exact(bench: &mut Bench) -> Result<(), String> {
    enqueue(&mut bench.direct, 1);
    bench.db.sql("ANALYZE");
    enqueue(&mut bench.direct, 500);
    for off in ["hashjoin", "mergejoin", "nestloop"] {
        let mut conn = bench.another();
        let others = ["hashjoin", "mergejoin", "nestloop"]
            .into_iter()
            .filter(|way| *way != off);
        let settings: String = others.map(|way| format!("SET enable_{way} = off; ")).collect();
        conn.batch_execute(&format!("{settings}SET plan_cache_mode = force_custom_plan; SET enable_memoize = off; SET enable_material = off; SET enable_hashagg = off; SET enable_indexscan = off; SET enable_bitmapscan = off"))
            .unwrap();
        let claimed = claim_statement(&mut conn, 3).unwrap().len();
        if claimed != 3 {
            return Err(format!("{claimed} rows for a limit of 3"));
        }
    }
    Ok(())
}

/// A batch in the wrong order waits for a row that somebody has, and holds nothing behind it meanwhile: two such could
/// wait for each other.
pub(crate) fn rows_are_locked_in_the_order_of_their_ids(bench: &mut Bench) -> Result<(), String> {
    let finish = |conn: &mut PgConnection, fences: &[Fence]| conn.finish(&Schema::default(), fences).map(drop);
    let release = |conn: &mut PgConnection, fences: &[Fence]| conn.release(&Schema::default(), fences).map(drop);
    in_order(bench, finish)?;
    in_order(bench, release)
}

fn in_order(
    bench: &mut Bench,
    write: impl FnOnce(&mut PgConnection, &[Fence]) -> QueryResult<()> + Send + 'static,
) -> Result<(), String> {
    enqueue(&mut bench.direct, 2);
    let mut fences = claim_statement(&mut bench.direct, 2).unwrap();
    fences.sort_by_key(|fence| std::cmp::Reverse(fence.id));
    let (second, first) = (fences[0].id, fences[1].id);
    let lock = format!("BEGIN; SELECT 1 FROM leasehold.jobs WHERE id = {first} FOR UPDATE");
    bench.direct.batch_execute(&lock).unwrap();
    let mut mutant = bench.another();
    let writes = thread::spawn(move || write(&mut mutant, &fences).unwrap());
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually(SOON, "it waits for the first row", || bench.db.integer(waits) == 1);
    let mut other = control(&bench.db);
    let free = other.batch_execute(&format!(
        "SELECT 1 FROM leasehold.jobs WHERE id = {second} FOR UPDATE NOWAIT"
    ));
    bench.direct.batch_execute("COMMIT").unwrap();
    writes.join().unwrap();
    free.map_err(|_| "it holds the second row while it waits for the first".to_owned())
}
