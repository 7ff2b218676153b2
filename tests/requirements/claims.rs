//! A claim is chosen, marked and committed before work starts.

use std::sync::{Arc, Barrier, Mutex};

use diesel::Connection as _;
use diesel::result::Error;
use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::{TestDb, conformance, eventually};

use crate::jobs::{
    SOON, claim, claim_statement, clock_ms, control, enqueue, lease_until_ms, migrated, new_job, standing,
    sweep_expired, try_claim,
};
#[cfg(feature = "postgres")]
use crate::session::Session;
use crate::story::{How, commit_all, commit_in_worker};

conformance! {
    fn s0_03_nothing_there_nothing_due_and_somebody_at_work_are_told_apart(db: &mut Db) {
        let mut conn = migrated(db);
        let none = Waiting::default();
        assert!(matches!(try_claim(&mut conn, 1).unwrap(), Found::Empty(waiting) if waiting == none));

        let mut later = new_job(1000);
        later.run_at = RunAt::After(3_600_000);
        conn.insert(&Schema::default(), &[later]).unwrap();
        let Found::NotDue { next, waiting } = try_claim(&mut conn, 1).unwrap() else { panic!("expected a time") };
        assert!((3_500..=3_600).contains(&next.as_secs()), "{next:?}");
        assert_eq!((waiting.ready, waiting.running, waiting.scheduled), (0, 0, 1));

        enqueue(&mut conn, 1);
        assert!(matches!(try_claim(&mut conn, 5).unwrap(), Found::Claimed(rows) if rows.len() == 1));
        let Found::NotDue { waiting, .. } = try_claim(&mut conn, 1).unwrap() else { panic!("expected a time") };
        assert_eq!((waiting.ready, waiting.running, waiting.scheduled), (0, 1, 1));
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_03_all_locked_is_not_empty(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 2);
        let mut a = Session::of(db);
        a.run("BEGIN; SELECT FROM leasehold.jobs FOR UPDATE");
        let found = try_claim(&mut conn, 5).unwrap();
        assert!(matches!(&found, Found::AllLocked(waiting) if waiting.ready == 2), "{found:?}");
        a.run("ROLLBACK");
        assert!(matches!(try_claim(&mut conn, 5).unwrap(), Found::Claimed(rows) if rows.len() == 2));
    }
}

conformance! {
    fn s0_04_a_claim_chooses_and_marks_in_one_statement(db: &mut Db) {
        let mut a = migrated(db);
        let mut b = control(db);
        let ids = enqueue(&mut a, 2);
        let (first, second) = (claim(&mut a), claim(&mut b));
        assert_eq!([first.id, second.id], *ids);
        assert_eq!([first.generation, second.generation], [1, 1]);
        assert_ne!(first.lease_token, second.lease_token);
        for fence in [first, second] {
            assert_eq!(standing(db, fence.id), "running/1");
            let filter = format!(
                "id = {} AND lease_token = '{}' AND attempt = 1 AND worker IS NOT NULL AND begun",
                fence.id, fence.lease_token
            );
            assert_eq!(db.integer(&format!("SELECT count(*) FROM leasehold.jobs WHERE {filter}")), 1);
        }
        assert!(claim_statement(&mut b, 5).unwrap().is_empty());
    }
}

conformance! {
    fn s0_04_each_claim_call_draws_a_higher_generation(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        let mut last = 0;
        for _ in 0..3 {
            let fence = claim(&mut conn);
            assert!(fence.generation > last);
            last = fence.generation;
            assert!(conn.sweep(&Schema::default(), 10).unwrap().is_empty(), "the lease has not run out");
            sweep_expired(&mut conn, id);
            // Taking away counts, too: the old owner is refused before somebody claims.
            assert_eq!(standing(db, id), format!("ready/{}", last + 1));
        }
    }
}

conformance! {
    fn s0_04_a_worker_draws_a_new_token_for_each_claim(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 3);
        // One thread, so one job a claim.
        commit_all(db, 3);
        assert_eq!(db.integer("SELECT count(DISTINCT lease_token) FROM leasehold.finished_jobs"), 3);
    }
}

conformance! {
    fn s0_05_a_claim_that_is_rolled_back_has_not_happened(db: &mut Db) {
        let mut a = migrated(db);
        let id = enqueue(&mut a, 1)[0];
        let rolled_back = a.transaction::<(), Error, _>(|a| {
            assert_eq!(claim_statement(a, 1)?.len(), 1);
            assert_eq!(standing(db, id), "ready/0", "nobody else sees a claim before its commit");
            Err(Error::RollbackTransaction)
        });
        assert_eq!(rolled_back, Err(Error::RollbackTransaction));
        assert_eq!(standing(db, id), "ready/0");
        assert_eq!(claim(&mut a).generation, 1);
    }
}

conformance! {
    fn s0_05_the_handler_begins_after_its_claim_is_committed(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        let seen = Arc::new(Mutex::new(None));
        let sees = Arc::clone(&seen);
        // A session of its own sees what is committed only.
        commit_in_worker::<Connection>(db.url(), How::default(), move |other, id| {
            *sees.lock().unwrap() = other.ownership(&Schema::default(), id).unwrap();
        }).unwrap();
        let row = seen.lock().unwrap().take().unwrap();
        assert_eq!((row.state.as_str(), row.generation), ("running", 1));
        assert_eq!(standing(db, id), "completed/1");
    }
}

conformance! {
    fn s0_06_a_claim_in_an_open_transaction_is_refused_before_anything_is_written(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        for depth in [1, 2] {
            conn.transaction::<(), Error, _>(|conn| {
                let refused = match depth {
                    1 => try_claim(conn, 1),
                    _ => conn.transaction(|conn| try_claim(conn, 1)),
                };
                let error = refused.unwrap_err();
                assert!(matches!(error, Error::QueryBuilderError(_)), "{error:?}");
                assert!(error.to_string().contains("cannot be part of an open transaction"), "{error}");
                Ok(())
            }).unwrap();
            assert_eq!(standing(db, id), "ready/0");
        }
        assert!(matches!(try_claim(&mut conn, 1).unwrap(), Found::Claimed(rows) if rows.len() == 1));
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no VACUUM beside an open transaction")]
    fn s0_07_an_open_claim_keeps_dead_rows_and_a_running_handler_does_not(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 1);
        db.sql("CREATE TABLE bulk (id bigint) WITH (autovacuum_enabled = false)");
        // VACUUM truncates a table of which it could remove every row.
        let (fill, size) = ("INSERT INTO bulk SELECT generate_series(1, 2000); DELETE FROM bulk", "SELECT pg_relation_size('bulk')");

        let mut a = Session::of(db);
        a.run("BEGIN; UPDATE leasehold.jobs SET priority = priority");
        db.sql(fill);
        db.sql("VACUUM bulk");
        assert!(db.integer(size) > 0, "the open transaction may still want the rows");
        a.run("COMMIT");
        db.sql("VACUUM bulk");
        assert_eq!(db.integer(size), 0);

        db.sql(fill);
        let look = Mutex::new(Session::of(db));
        commit_in_worker::<Connection>(db.url(), How::default(), move |_, _| {
            let mut look = look.lock().unwrap();
            // The control connections have short transactions; one may be under way.
            eventually(SOON, "VACUUM removes rows while the handler runs", || {
                look.run("VACUUM bulk");
                look.integer("SELECT pg_relation_size('bulk')") == 0
            });
            let held = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
            assert_eq!(look.integer(held), 0);
        }).unwrap();
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_08_the_order_of_ids_is_no_strict_order(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = enqueue(&mut conn, 2);
        let mut a = Session::of(db);
        a.run(&format!("BEGIN; SELECT FROM leasehold.jobs WHERE id = {} FOR UPDATE", ids[0]));
        assert_eq!(claim(&mut conn).id, ids[1]);
        a.run("ROLLBACK");
        assert_eq!(claim(&mut conn).id, ids[0]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no table locks")]
    fn s0_09_skip_locked_does_not_skip_a_locked_table(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 1);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        b.run("SET lock_timeout = '300ms'");
        let shaped = "UPDATE leasehold.jobs SET priority = 1 WHERE id = ANY (ARRAY(
            SELECT id FROM leasehold.jobs WHERE state = 'ready' LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED))";
        // As a migration takes them, and as CREATE INDEX does.
        for mode in ["ACCESS EXCLUSIVE", "SHARE"] {
            a.run(&format!("BEGIN; LOCK TABLE leasehold.jobs IN {mode} MODE"));
            assert_eq!(b.sqlstate(shaped), "55P03", "{mode}");
            assert!(claim_statement(&mut b.conn, 1).is_err(), "{mode}");
            a.run("ROLLBACK");
        }
        assert_eq!(claim(&mut conn).generation, 1);
    }
}

conformance! {
    fn s0_10_a_lease_is_as_long_as_its_job_says_by_the_databases_clock(db: &mut Db) {
        let mut conn = migrated(db);
        for lease_ms in [1, 3, 999, 300_000, 31_536_000_000] {
            let id = conn.insert(&Schema::default(), &[new_job(lease_ms)]).unwrap()[0];
            let before = clock_ms(db);
            assert_eq!(claim(&mut conn).id, id);
            let after = clock_ms(db);
            let until = lease_until_ms(db, id);
            assert!((before + lease_ms..=after + lease_ms).contains(&until), "{lease_ms}: {}", until - before);
        }
        for lease_ms in [-1, 0, 31_536_000_001] {
            assert!(conn.insert(&Schema::default(), &[new_job(lease_ms)]).is_err(), "{lease_ms}");
        }
    }
}

conformance! {
    fn s2_06_the_same_claim_in_many_workers_gives_each_row_once(db: &mut Db) {
        let mut conn = migrated(db);
        let mut ids = enqueue(&mut conn, 200);
        let start = Arc::new(Barrier::new(4));
        let workers: Vec<_> = (0..4).map(|_| {
            let (mut conn, start) = (control(db), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                let mut mine = Vec::new();
                loop {
                    match try_claim(&mut conn, 3).unwrap() {
                        Found::Claimed(rows) => {
                            assert!(rows.len() <= 3 && rows.iter().all(|row| row.generation == 1));
                            mine.extend(rows.iter().map(|row| row.id));
                        }
                        Found::AllLocked(_) => {}
                        _ => return mine,
                    }
                }
            })
        }).collect();
        let mut claimed: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        claimed.sort_unstable();
        ids.sort_unstable();
        assert_eq!(claimed, ids);
    }
}
