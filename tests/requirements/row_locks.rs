//! What PostgreSQL's row locks are, and are not.

use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::{TestDb, conformance};

#[cfg(feature = "postgres")]
use crate::jobs::{claim, claim_statement, control, enqueue, migrated, new_job, serves, standing, sweep_expired};
#[cfg(feature = "postgres")]
use crate::session::Session;

#[cfg(feature = "postgres")]
const SKIP_LOCKED: &str =
    "SELECT id FROM leasehold.jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED";

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_01_a_row_lock_ends_with_its_transaction_and_records_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = enqueue(&mut conn, 2);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN");
        b.run("BEGIN");
        let got = [a.integer(SKIP_LOCKED), b.integer(SKIP_LOCKED)];
        b.run("ROLLBACK");
        a.run("COMMIT");
        assert_eq!([got[0], got[1], b.integer(SKIP_LOCKED)], [ids[0], ids[1], ids[0]]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_02_skip_locked_skips_and_does_not_remove(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 2);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; SELECT FROM leasehold.jobs FOR UPDATE");
        assert!(b.integers(SKIP_LOCKED).is_empty());
        assert_eq!(b.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'ready'"), 2);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_03_for_update_blocks_writers_of_that_row_and_nobody_else(db: &mut Db) {
        accounts(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; SELECT FROM accounts WHERE id = 1 FOR UPDATE");
        b.run("SET lock_timeout = '200ms'");
        for (statement, sqlstate) in [
            ("SELECT FROM accounts WHERE id = 1 FOR UPDATE", "55P03"),
            ("UPDATE accounts SET balance = 0 WHERE id = 1", "55P03"),
            ("DELETE FROM accounts WHERE id = 1", "55P03"),
            ("SELECT FROM accounts WHERE id = 1", "00000"),
            ("SELECT FROM accounts WHERE id = 2 FOR UPDATE", "00000"),
            ("UPDATE accounts SET balance = 0 WHERE id = 2", "00000"),
        ] {
            assert_eq!(b.sqlstate(statement), sqlstate, "{statement}");
        }
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_04_for_update_locks_the_table_a_little_and_the_row_fully(db: &mut Db) {
        accounts(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; SELECT FROM accounts WHERE id = 1 FOR UPDATE");
        let table = format!("SELECT mode FROM pg_locks WHERE relation = 'accounts'::regclass AND pid = {}", a.pid);
        assert_eq!(db.texts(&table), [Some("RowShareLock".to_owned())]);
        // The row itself names the transaction that has it.
        let holder = format!(
            "SELECT id FROM accounts JOIN pg_locks ON transactionid = accounts.xmax WHERE pid = {} AND granted", a.pid
        );
        assert_eq!(db.integer(&holder), 1);
        // Of all row locks, FOR UPDATE alone is in the way of this one.
        assert_eq!(b.sqlstate("SELECT FROM accounts WHERE id = 1 FOR KEY SHARE NOWAIT"), "55P03");
        a.run("ROLLBACK; BEGIN; SELECT FROM accounts WHERE id = 1 FOR NO KEY UPDATE");
        assert_eq!(b.sqlstate("SELECT FROM accounts WHERE id = 1 FOR KEY SHARE NOWAIT"), "00000");
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_08_work_inside_the_locking_transaction_leaves_no_trace_of_a_dead_worker(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN");
        assert_eq!(a.integer(SKIP_LOCKED), id);
        let attempts = format!("SELECT attempt FROM leasehold.jobs WHERE id = {id}");
        terminate(db, a.pid);
        assert_eq!((standing(db, id).as_str(), db.integer(&attempts)), ("ready/0", 0));
        assert_eq!(b.integer(SKIP_LOCKED), id);

        // Ours is counted by the claim, and the sweep notes what became of it.
        let mut worker = Session::new(control(db));
        claim(&mut worker.conn);
        terminate(db, worker.pid);
        assert_eq!((standing(db, id).as_str(), db.integer(&attempts)), ("running/1", 1));
        sweep_expired(&mut conn, id);
        assert_eq!((standing(db, id).as_str(), db.integer(&attempts)), ("ready/2", 1));
        assert_eq!(db.texts("SELECT cause FROM leasehold.job_errors"), [Some("lease expired".to_owned())]);
    }
}

/// Ends a session, and waits until the server has.
#[cfg(feature = "postgres")]
fn terminate(db: &mut leasehold_tests::postgres::Database, pid: i64) {
    db.sql(&format!("SELECT pg_terminate_backend({pid})"));
    leasehold_tests::eventually(crate::jobs::SOON, "the session is gone", || {
        db.integer(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}")) == 0
    });
}

conformance! {
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn s2_09_a_job_enqueued_first_and_committed_later_is_not_the_first(db: &mut Db) {
        let (mut conn, mut a) = (migrated(db), control(db));
        let first = diesel::Connection::transaction::<_, diesel::result::Error, _>(&mut a, |a| {
            let first = enqueue(a, 1)[0];
            let second = enqueue(&mut conn, 1)[0];
            assert!(first < second);
            assert_eq!(claim(&mut conn).id, second);
            Ok(first)
        }).unwrap();
        assert_eq!(claim(&mut conn).id, first);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_10_nowait_fails_at_once_and_aborts_the_transaction(db: &mut Db) {
        accounts(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; SELECT FROM accounts WHERE id = 1 FOR UPDATE");
        let nowait = "SELECT FROM accounts WHERE id = 1 FOR UPDATE NOWAIT";
        // That it comes back at all shows that it does not wait: the lock stays.
        assert_eq!(b.sqlstate(nowait), "55P03");
        b.run("BEGIN");
        assert!(diesel::RunQueryDsl::execute(diesel::sql_query(nowait), &mut b.conn).is_err());
        assert!(diesel::RunQueryDsl::execute(diesel::sql_query("SELECT 1"), &mut b.conn).is_err());
        b.run("ROLLBACK");
        assert_eq!(b.integer("SELECT balance FROM accounts WHERE id = 1"), 1000);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_11_for_update_of_locks_the_named_table_only(db: &mut Db) {
        db.sql("CREATE TABLE orders (id bigint PRIMARY KEY);
            CREATE TABLE order_items (order_id bigint REFERENCES orders);
            INSERT INTO orders VALUES (1); INSERT INTO order_items VALUES (1)");
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        let join = "BEGIN; SELECT FROM orders AS o JOIN order_items AS i ON i.order_id = o.id FOR UPDATE";
        for (of, orders, items) in [("OF i", "00000", "55P03"), ("", "55P03", "55P03")] {
            a.run(&format!("{join} {of}"));
            assert_eq!(b.sqlstate("SELECT FROM orders FOR UPDATE NOWAIT"), orders, "{of}");
            assert_eq!(b.sqlstate("SELECT FROM order_items FOR UPDATE NOWAIT"), items, "{of}");
            a.run("ROLLBACK");
        }
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_12_locks_in_opposite_order_deadlock(db: &mut Db) {
        accounts(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        let lock = |id: i64| format!("SELECT FROM accounts WHERE id = {id} FOR UPDATE");
        a.run(&format!("BEGIN; {}", lock(1)));
        b.run(&format!("BEGIN; {}", lock(2)));
        let (second, first) = (lock(2), lock(1));
        let a = a.waits(db, move |a| {
            let state = a.sqlstate(&second);
            a.run("ROLLBACK");
            state
        });
        let state = b.sqlstate(&first);
        b.run("ROLLBACK");
        let mut states = [a.answer().1, state];
        states.sort();
        assert_eq!(states, ["00000", "40P01"]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_12_a_group_of_ours_takes_its_locks_in_the_order_of_the_ids(db: &mut Db) {
        let mut conn = migrated(db);
        for statement in ["finish", "release", "begin"] {
            enqueue(&mut conn, 3);
            let mut fences = claim_statement(&mut conn, 3).unwrap();
            fences.sort_unstable_by(|a, b| b.cmp(a));
            let (highest, lowest) = (fences[0].id, fences[2].id);
            let (mut a, mut other) = (Session::of(db), Session::of(db));
            a.run(&format!("BEGIN; SELECT FROM leasehold.jobs WHERE id = {lowest} FOR UPDATE"));
            let group = Session::new(control(db)).waits(db, move |z| {
                let schema = Schema::default();
                match statement {
                    "finish" => z.conn.finish(&schema, &fences),
                    "release" => z.conn.release(&schema, &fences),
                    _ => z.conn.begin(&schema, &fences),
                }.unwrap().len()
            });
            // It waits for the lowest and has none of the others yet.
            for id in [highest, highest - 1] {
                let free = format!("SELECT FROM leasehold.jobs WHERE id = {id} FOR UPDATE NOWAIT");
                assert_eq!(other.sqlstate(&free), "00000", "{statement}");
            }
            a.run("COMMIT");
            assert_eq!(group.answer().1, 3, "{statement}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_16_for_update_is_in_the_way_of_a_foreign_key_and_for_no_key_update_is_not(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 1);
        db.sql("CREATE TABLE child (job bigint REFERENCES leasehold.jobs)");
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        b.run("SET lock_timeout = '200ms'");
        for (lock, sqlstate) in [("FOR UPDATE", "55P03"), ("FOR NO KEY UPDATE", "00000")] {
            a.run(&format!("BEGIN; SELECT FROM leasehold.jobs {lock}"));
            assert_eq!(b.sqlstate("INSERT INTO child SELECT id FROM leasehold.jobs"), sqlstate, "{lock}");
            assert!(b.integers(SKIP_LOCKED).is_empty(), "SKIP LOCKED honours {lock}");
            a.run("ROLLBACK");
        }
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_16_our_statements_pass_a_row_that_a_child_refers_to(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = Schema::default();
        let ids = enqueue(&mut conn, 1);
        db.sql("CREATE TABLE child (job bigint REFERENCES leasehold.jobs)");
        let mut child = Session::of(db);
        // An insert that is not committed has the job's row FOR KEY SHARE; a stronger lock than ours would skip it.
        child.run(&format!("BEGIN; INSERT INTO child VALUES ({})", ids[0]));
        let fence = claim(&mut conn);
        assert_eq!(conn.begin(&schema, &[fence]), Ok(vec![fence.id]));
        assert!(conn.heartbeat(&schema, &[fence]).unwrap()[0].renewed);
        assert_eq!(conn.release(&schema, &[fence]), Ok(vec![fence.id]));
        claim(&mut conn);
        assert_eq!(conn.request_cancel(&schema, &[fence.id]), Ok(vec![fence.id]));
        db.sql("UPDATE leasehold.jobs SET cancel_requested_at = NULL");
        sweep_expired(&mut conn, fence.id);

        let mut later = new_job(1000);
        later.run_at = RunAt::After(3_600_000);
        let later = conn.insert(&schema, &[later]).unwrap()[0];
        child.run(&format!("INSERT INTO child VALUES ({later})"));
        db.set_time("leasehold.jobs", "run_at", -1, &format!("id = {later}"));
        assert_eq!(conn.promote(&schema, &serves(), 5), Ok(1));
        child.run("ROLLBACK");
    }
}

/// Two accounts with 1,000 each.
#[cfg(feature = "postgres")]
pub(crate) fn accounts(db: &mut leasehold_tests::postgres::Database) {
    db.sql(
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL DEFAULT 1);
        INSERT INTO accounts VALUES (1, 1000), (2, 1000)",
    );
}
