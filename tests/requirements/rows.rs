//! Claims of chosen rows of an application's own table: what went wrong without ownership, and what holds with it.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use leasehold::__private::ConnectionSettings;
use leasehold::Backend;
use leasehold::rows::{self, Answer};
use leasehold_tests::issues::*;
use leasehold_tests::{TestDb, conformance, eventually};

use crate::jobs::SOON;
#[cfg(feature = "postgres")]
use crate::session::Session;

diesel::table! { issue (id) { id -> BigInt, processing_status -> Text } }

fn connect<C: Backend>(url: &str) -> C {
    C::connect(url, &ConnectionSettings::default()).unwrap()
}

/// The naive way: read, decide, write.
fn naive<C: Backend>(conn: &mut C, is_pending: impl Fn(&mut C) -> bool, both_have_read: &Barrier) {
    let pending = is_pending(conn);
    both_have_read.wait();
    if pending {
        conn.batch_execute("UPDATE issue SET processing_status = 'IN_PROGRESS' WHERE id = 1")
            .unwrap();
        conn.batch_execute("INSERT INTO written VALUES (1)").unwrap();
    }
}

conformance! {
    fn s4_01_a_check_before_the_write_duplicates_work_and_a_claim_does_not(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        issues(db, &[1]);
        let url = &db.url();
        db.sql("CREATE TABLE written (issue bigint)");
        let both_have_read = Barrier::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let pending = |conn: &mut Connection| {
                        let status = issue::table.find(1).select(issue::processing_status);
                        status.first::<String>(conn).unwrap() == "PENDING"
                    };
                    naive(&mut connect::<Connection>(url), pending, &both_have_read);
                });
            }
        });
        assert_eq!(db.integer("SELECT count(*) FROM written"), 2, "two articles for one issue");

        db.sql("DELETE FROM written; UPDATE issue SET processing_status = 'PENDING'");
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut conn = connect::<Connection>(url);
                    both_have_read.wait();
                    for (_, answer) in claim_ids::<Issue, _>(&mut conn, &[1]) {
                        let Some(lease) = answer.claimed() else { continue };
                        lease
                            .commit(&mut conn, "DONE", |tx| Ok(tx.batch_execute("INSERT INTO written VALUES (1)")?))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(db.integer("SELECT count(*) FROM written"), 1);
    }
}

conformance! {
    fn s4_02_however_many_ask_each_issue_is_claimed_once(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let ids: Vec<i64> = (1..=10).collect();
        issues(db, &ids);
        let url = &db.url();
        let all_ready = Barrier::new(8);
        let mut claimed: Vec<i64> = thread::scope(|scope| {
            let ask = || {
                let mut conn = connect::<Connection>(url);
                all_ready.wait();
                let answers = claim_ids::<Issue, _>(&mut conn, &ids);
                answers.into_iter().filter_map(|(id, answer)| answer.claimed().map(|_| id)).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        claimed.sort_unstable();
        assert_eq!(claimed, ids, "ten occupied, ten distinct");
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_03_with_for_update_the_second_waits_and_then_filters_by_the_new_state(db: &mut Db) {
        issues(db, &[1, 2]);
        let (mut a, b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; SELECT FROM issue WHERE processing_status = 'PENDING' FOR UPDATE");
        let b = b.waits(db, |b| b.integers("SELECT id FROM issue WHERE processing_status = 'PENDING' FOR UPDATE"));
        a.run("UPDATE issue SET processing_status = 'IN_PROGRESS'; COMMIT");
        assert!(b.answer().1.is_empty());
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_04_a_claim_is_answered_at_once_while_another_is_under_way(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        let mut a = Session::of(db);
        a.run("BEGIN; SELECT FROM issue FOR UPDATE");
        // It would fail by this if it waited.
        conn.batch_execute("SET lock_timeout = '1ms'").unwrap();
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1, 2])), ["1 busy", "2 busy"]);
    }
}

conformance! {
    fn s4_05_pending_and_failed_rows_are_claimed_and_all_others_are_left(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3, 4, 5]);
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id = 2;
            UPDATE issue SET processing_status = 'FAILED' WHERE id = 4");
        let _running = claim_one::<Issue, _>(&mut conn, 1);
        let mut locker = db.connect();
        let five = if Db::BACKEND == "postgres" {
            locker.batch_execute("BEGIN; SELECT * FROM issue WHERE id = 5 FOR UPDATE").unwrap();
            "5 busy"
        } else {
            // Nothing can lock a row there.
            "5 claimed"
        };
        let answers = claim_ids::<Issue, _>(&mut conn, &[1, 2, 3, 4, 5, 999, 3]);
        assert_eq!(texts(&answers), ["1 running", "2 DONE", "3 claimed", "4 claimed", five, "999 missing"]);
        if five == "5 busy" {
            assert_eq!(leasehold_tests::issues::issue(db, 5), "PENDING/0", "untouched");
        }
    }
}

conformance! {
    fn s4_06_a_mix_is_answered_part_by_part_and_nothing_claimed_is_told_from_it(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3]);
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id = 2");
        let _running = claim_one::<Issue, _>(&mut conn, 1);
        let mut claimed = |ids: &[i64]| {
            let answers = claim_ids::<Issue, _>(&mut conn, ids);
            answers.iter().filter(|(_, answer)| matches!(answer, Answer::Claimed(_))).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        assert_eq!(claimed(&[1, 2, 3]), [3]);
        assert!(claimed(&[1, 2]).is_empty());
        assert!(claimed(&[]).is_empty());
    }
}

conformance! {
    fn s4_07_only_what_was_claimed_is_worked_on(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3, 4]);
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id IN (1, 2)");
        for (id, answer) in claim_ids::<Issue, _>(&mut conn, &[1, 2, 3, 9]) {
            let Some(lease) = answer.claimed() else { continue };
            lease.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, id)?)).unwrap();
        }
        assert_eq!(db.texts("SELECT CAST(issue AS text) FROM article"), [Some("3".to_owned())]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_08_a_row_that_was_locked_for_a_moment_is_told_from_one_that_runs(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let mut locker = Session::of(db);
        locker.run("BEGIN; SELECT FROM issue WHERE id = 1 FOR UPDATE");
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1])), ["1 busy"]);
        locker.run("ROLLBACK");
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1])), ["1 claimed"]);
    }
}

conformance! {
    fn s4_09_a_crash_between_claim_and_work_is_over_when_the_lease_is(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        // Without a lease: running for ever.
        db.sql("UPDATE issue SET processing_status = 'IN_PROGRESS' WHERE id = 2");
        // With one: the process is gone before it has begun.
        drop(claim_ids::<Issue, _>(&mut conn, &[1]));
        for _ in 0..2 {
            assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1, 2])), ["1 running", "2 running"]);
        }
        expire(db, 1);
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1, 2])), ["1 claimed", "2 running"]);
        // Those of before are taken over when somebody says so.
        assert_eq!(rows::adopt::<Issue, _>(&mut conn, MINUTE).unwrap(), 1);
        expire(db, 2);
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[2])), ["2 claimed"]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_10_waiting_for_a_row_drains_the_pool_and_a_claim_does_not(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        issues(db, &[1]);
        let pool = |patience| {
            let pool = Pool::builder().max_size(4).connection_timeout(patience);
            pool.build(ConnectionManager::<Connection>::new(db.url())).unwrap()
        };
        let (hasty, patient) = (pool(Duration::from_millis(300)), pool(SOON));
        let mut locker = Session::of(db);
        locker.run("BEGIN; SELECT FROM issue WHERE id = 1 FOR UPDATE");
        let naive = |pool: &Pool<ConnectionManager<Connection>>| pool.get().map(|mut conn| conn.batch_execute("SELECT * FROM issue WHERE id = 1 FOR UPDATE"));
        thread::scope(|scope| {
            let stuck: Vec<_> = (0..4).map(|_| scope.spawn(|| naive(&hasty))).collect();
            eventually(SOON, "four wait for the row", || {
                db.integer("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 4
            });
            for _ in 0..2 {
                assert!(naive(&hasty).is_err(), "no connection is left");
            }
            locker.run("ROLLBACK");
            for thread in stuck {
                thread.join().unwrap().unwrap().unwrap();
            }
        });
        locker.run("BEGIN; SELECT FROM issue WHERE id = 1 FOR UPDATE");
        thread::scope(|scope| {
            let ask = || texts(&claim_ids::<Issue, _>(&mut *patient.get().unwrap(), &[1]));
            let asked: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            for thread in asked {
                assert_eq!(thread.join().unwrap(), ["1 busy"]);
            }
        });
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn s4_11_overlapping_lists_in_opposite_order_deadlock_with_for_update_and_not_with_a_claim(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        issues(db, &[1, 2]);
        let url = &db.url();
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; SELECT FROM issue WHERE id = 1 FOR UPDATE");
        b.run("BEGIN; SET LOCAL deadlock_timeout = '50ms'; SELECT FROM issue WHERE id = 2 FOR UPDATE");
        let a = a.waits(db, |a| a.rows("SELECT FROM issue WHERE id = 2 FOR UPDATE"));
        assert_eq!(b.sqlstate("SELECT FROM issue WHERE id = 1 FOR UPDATE"), "40P01");
        b.run("ROLLBACK");
        let (mut a, _) = a.answer();
        a.run("ROLLBACK");

        let ids: Vec<i64> = (1..=200).collect();
        db.sql("INSERT INTO issue (id) SELECT generate_series(3, 200)");
        let owners = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let mut ids = ids.clone();
                    scope.spawn(move || {
                        let mut conn = connect::<Connection>(url);
                        if number % 2 == 1 {
                            ids.reverse();
                        }
                        let mut claimed = BTreeMap::new();
                        for few in ids.chunks(50) {
                            for (id, answer) in claim_ids::<Issue, _>(&mut conn, few) {
                                *claimed.entry(id).or_insert(0) += i32::from(answer.claimed().is_some());
                            }
                        }
                        claimed
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).fold(BTreeMap::new(), |mut all, (id, claimed)| {
                *all.entry(id).or_insert(0) += claimed;
                all
            })
        });
        assert!(owners.len() == 200 && owners.values().all(|claimed| *claimed <= 1), "{owners:?}");
    }
}

conformance! {
    fn s4_13_the_scheduler_and_a_person_claim_at_once_and_each_issue_is_claimed_once(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let ids: Vec<i64> = (1..=60).collect();
        issues(db, &ids);
        let url = &db.url();
        let both_ready = Barrier::new(2);
        let (scheduler, person) = thread::scope(|scope| {
            let scheduler = scope.spawn(|| {
                let mut conn = connect::<Connection>(url);
                both_ready.wait();
                let mut claimed = Vec::new();
                for _ in 0..12 {
                    let query = issue::table.order(issue::id.desc()).select(issue::id);
                    let leases = rows::claim_from::<Issue, _, _>(&mut conn, query, 5, MINUTE).unwrap();
                    claimed.extend(leases.iter().map(|lease| *lease.id()));
                }
                claimed
            });
            let person = scope.spawn(|| {
                let mut conn = connect::<Connection>(url);
                both_ready.wait();
                let mut claimed = Vec::new();
                for few in ids.chunks(5) {
                    let answers = claim_ids::<Issue, _>(&mut conn, few);
                    claimed.extend(answers.into_iter().filter_map(|(id, answer)| answer.claimed().map(|_| id)));
                }
                claimed
            });
            (scheduler.join().unwrap(), person.join().unwrap())
        });
        let mut all = [scheduler, person].concat();
        all.sort_unstable();
        all.dedup();
        let claimed = db.integer("SELECT count(*) FROM issue WHERE generation = 1");
        assert_eq!(i64::try_from(all.len()).unwrap(), claimed);
        assert_eq!(db.integer("SELECT count(*) FROM issue WHERE generation > 1"), 0);
    }
}

conformance! {
    fn s4_14_a_failed_row_may_be_claimed_again(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        claim_one::<Issue, _>(&mut conn, 1).settle(&mut conn, "FAILED").unwrap();
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1])), ["1 claimed"]);
        assert_eq!(leasehold_tests::issues::issue(db, 1), "IN_PROGRESS/2 token until");
    }
}
