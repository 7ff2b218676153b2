//! The claim of chosen jobs as one step: committed, durable, and beside others, for whom it does not wait.

use std::sync::Barrier;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::Error;
use leasehold::Job;

use crate::fence::put_back;
use crate::selected::{Limited, choose, claimed_row, name, notes, request, runs};
use crate::support::*;

conformance!(
    fn a_chosen_claim_inside_a_transaction_is_refused_and_writes_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let id = notes(&mut conn, 1)[0];
        let before = row(db, id);
        let refused = conn
            .transaction(|tx| {
                let runs = runs();
                Ok::<_, Error>(claim_selected(tx, &default_schema(), &request(Chosen::Ids(&[id]), &runs)).unwrap_err())
            })
            .unwrap();
        assert!(
            refused.to_string().contains("must be committed before work starts"),
            "{refused}"
        );
        assert_eq!(row(db, id), before);
    }
);

conformance!(
    fn a_chosen_claim_that_is_rolled_back_was_never_made(db: &mut Db) {
        let mut conn = migrated(db);
        let id = notes(&mut conn, 1)[0];
        let before = row(db, id);
        conn.begin_write().unwrap();
        let runs = runs();
        let rows = conn
            .claim_selected(&default_schema(), &request(Chosen::Ids(&[id]), &runs))
            .unwrap();
        assert_eq!(name(&rows[0].found), "claimed");
        AnsiTransactionManager::rollback_transaction(&mut conn).unwrap();
        assert_eq!(row(db, id), before);
    }
);

conformance!(
    #[skip(sqlite, "synchronous = FULL is the connection's there")]
    fn a_chosen_claim_makes_itself_durable_whatever_the_session_says(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = notes(&mut conn, 1);
        let runs = runs();
        conn.batch_execute("SET synchronous_commit = off; CREATE TABLE said (value text)")
            .unwrap();
        for (chosen, expected) in [(&ids[..], "on"), (&[][..], "off")] {
            conn.begin_write().unwrap();
            conn.claim_selected(&default_schema(), &request(Chosen::Ids(chosen), &runs))
                .unwrap();
            conn.batch_execute("DELETE FROM said; INSERT INTO said SELECT current_setting('synchronous_commit')")
                .unwrap();
            AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
            assert_eq!(db.text("SELECT value FROM said").as_deref(), Some(expected));
        }
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_locked_job_is_busy_at_once_and_its_neighbours_are_claimed(db: &mut Db) {
        let mut conn = migrated(db);
        let ids = notes(&mut conn, 3);
        let mut other = open(db);
        other
            .transaction(|tx| {
                assert!(tx.lock_ownership(&default_schema(), ids[1])?.is_some());
                // A claim that waited would wait for ever: the lock goes only after it.
                assert_eq!(
                    crate::selected::answers(&mut conn, &ids),
                    ["claimed", "busy", "claimed"]
                );
                assert_eq!(crate::selected::answers(&mut conn, &[ids[1]]), ["busy"]);
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(standing(db, ids[1]), "ready generation=0 attempt=0");
        assert_eq!(
            crate::selected::answers(&mut conn, &ids),
            ["running", "claimed", "running"]
        );
    }
);

conformance!(
    fn each_job_goes_to_one_of_many_callers_and_lists_in_opposite_order_do_not_deadlock(db: &mut Db) {
        let mut conn = migrated(db);
        for round in 0..3 {
            let ids = notes(&mut conn, 300);
            let reversed: Vec<i64> = ids.iter().rev().copied().collect();
            let start = Barrier::new(4);
            let mut taken: Vec<i64> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|thread| {
                        let (list, start) = (if thread % 2 == 0 { &ids } else { &reversed }, &start);
                        let mut conn = open(db);
                        scope.spawn(move || {
                            start.wait();
                            let mut mine = Vec::new();
                            // Whatever was busy is asked for again.
                            let mut left = list.clone();
                            while !left.is_empty() {
                                let (rows, _) = choose(&mut conn, &left);
                                mine.extend(
                                    rows.iter()
                                        .filter(|row| name(&row.found) == "claimed")
                                        .filter_map(|row| row.id),
                                );
                                let busy = rows.iter().filter(|row| name(&row.found) == "busy");
                                left = busy.filter_map(|row| row.id).collect();
                            }
                            mine
                        })
                    })
                    .collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            taken.sort_unstable();
            assert_eq!(taken, ids, "round {round}");
            let twice =
                "SELECT count(*) FROM leasehold.jobs WHERE state = 'running' AND (generation <> 1 OR attempt <> 1)";
            assert_eq!(db.integer(twice), 0);
        }
    }
);

conformance!(
    fn a_job_that_was_put_back_is_claimed_under_a_higher_generation(db: &mut Db) {
        let mut conn = migrated(db);
        let id = notes(&mut conn, 1)[0];
        let (rows, token) = choose(&mut conn, &[id]);
        let first = fence_of(claimed_row(&rows[0]), token);
        conn.put_back(&default_schema(), &first, &put_back()).unwrap();
        let (rows, token) = choose(&mut conn, &[id]);
        let second = fence_of(claimed_row(&rows[0]), token);
        assert!(second.generation > first.generation);
        for miss in near_misses(&second).into_iter().chain([first]) {
            assert!(conn.finish(&default_schema(), &[miss]).unwrap().is_empty());
        }
        assert_eq!(conn.finish(&default_schema(), &[second]).unwrap(), [id]);
    }
);

conformance!(
    fn the_start_of_a_chosen_job_is_counted_for_its_rate(db: &mut Db) {
        let mut conn = migrated(db);
        let id = Limited {}.enqueue(&mut conn).unwrap().id();
        admit_all(&mut conn, &default_schema(), &[limit_of::<Limited>()]).unwrap();
        let chosen = [id];
        let counted = [CountedKind {
            kind: "limited".to_owned(),
            per_ms: 60_000,
        }];
        let runs = runs();
        let request = SelectedRequest {
            counted: &counted,
            ..request(Chosen::Ids(&chosen), &runs)
        };
        let rows = claim_selected(&mut conn, &default_schema(), &request).unwrap();
        assert_eq!(name(&rows[0].found), "claimed");
        let starts = format!("SELECT count(*) FROM leasehold.starts WHERE kind = 'limited' AND job_id = {id}");
        assert_eq!(db.integer(&starts), 1);
        // As if it had not been claimed.
        let fence = fence_of(claimed_row(&rows[0]), request.lease_token);
        assert_eq!(conn.release(&default_schema(), &[fence]).unwrap(), [id]);
        assert_eq!(db.integer(&starts), 0);
        assert_eq!(standing(db, id), "ready generation=1 attempt=0");
    }
);
