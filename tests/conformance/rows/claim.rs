//! Claims of given rows.

use std::thread;

#[cfg(feature = "postgres")]
use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::rows::RowError;

use super::*;

conformance!(
    fn each_id_is_answered_once_and_only_what_can_run_is_claimed(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3, 4, 5, 6]);
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id = 2");
        db.sql("UPDATE issue SET processing_status = 'FAILED', generation = 7 WHERE id = 4");
        let held = claim_one::<Issue, _>(&mut conn, 1);
        let answers = claim_ids::<Issue, _>(&mut conn, &[4, 1, 2, 3, 999, 3, 4]);
        assert_eq!(
            texts(&answers),
            ["4 claimed", "1 running", "2 DONE", "3 claimed", "999 missing"]
        );
        assert_eq!(issue(db, 3), "IN_PROGRESS/1 token until");
        assert_eq!(issue(db, 4), "IN_PROGRESS/8 token until");
        for untouched in [5, 6] {
            assert_eq!(issue(db, untouched), "PENDING/0");
        }
        assert_eq!(
            db.integer("SELECT count(DISTINCT lease_token) FROM issue"),
            2,
            "one token for each call"
        );
        assert_eq!(held.generation(), 1);
        let (id, four) = answers.into_iter().next().unwrap();
        let four = four.claimed().unwrap();
        assert_eq!((id, *four.id(), four.generation()), (4, 4, 8));
        assert_eq!(four.idempotency_key(), "issue:4");
        assert!(!four.is_lost() && is_about(four.remaining(), MINUTE));
        assert!(is_about(from_now(db, "issue", "lease_until", "id = 4"), MINUTE));
    }
);

conformance!(
    fn an_empty_list_and_a_huge_one_are_answered(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let most = i64::try_from(rows::MOST).unwrap();
        let mut conn = issues(db, &[most, most + 1]);
        assert!(claim_ids::<Issue, _>(&mut conn, &[]).is_empty());
        let mut ids: Vec<i64> = (1..=most + 1).collect();
        let too_many = rows::claim::<Issue, _>(&mut conn, &ids, MINUTE);
        assert!(
            matches!(too_many, Err(RowError::TooMany { asked }) if asked == rows::MOST + 1),
            "{too_many:?}"
        );
        assert_eq!(issue(db, most), "PENDING/0", "nothing was asked");
        // What is repeated is asked once.
        ids[rows::MOST] = 1;
        let answers = claim_ids::<Issue, _>(&mut conn, &ids);
        assert_eq!(answers.len(), rows::MOST);
        assert!(matches!(answers[0], (1, Answer::Missing)));
        assert!(matches!(answers[rows::MOST - 1], (id, Answer::Claimed(_)) if id == most));
    }
);

conformance!(
    fn a_claim_inside_a_transaction_is_refused_before_anything_is_written(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let refused = conn.transaction(|tx| Ok::<_, diesel::result::Error>(rows::claim::<Issue, _>(tx, &[1], MINUTE)));
        assert!(matches!(refused.unwrap(), Err(RowError::InTransaction)));
        // One that Diesel does not know of.
        conn.batch_execute("BEGIN; INSERT INTO article VALUES (1)").unwrap();
        let refused = rows::claim::<Issue, _>(&mut conn, &[1], MINUTE);
        assert!(matches!(refused, Err(RowError::Database(_))), "{refused:?}");
        drop(conn);
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("PENDING/0", 0));
    }
);

conformance!(
    fn a_running_row_whose_lease_has_ended_is_claimed_without_a_sweep(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let first = claim_one::<Issue, _>(&mut conn, 1);
        assert_eq!(texts(&claim_ids::<Issue, _>(&mut conn, &[1])), ["1 running"]);
        expire(db, 1);
        let second = claim_one::<Issue, _>(&mut conn, 1);
        assert_eq!((first.generation(), second.generation()), (1, 2));
        assert_eq!(first.idempotency_key(), second.idempotency_key());
        assert_eq!(issue(db, 1), "IN_PROGRESS/2 token until");
    }
);

conformance!(
    fn a_lease_of_no_time_or_of_all_time_is_no_error(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        for (id, lease) in [(1, Duration::ZERO), (2, Duration::MAX)] {
            let answers = rows::claim::<Issue, _>(&mut conn, &[id], lease).unwrap();
            assert_eq!(texts(&answers), [format!("{id} claimed")]);
        }
    }
);

conformance!(
    fn a_row_at_the_end_of_its_numbers_does_not_fail_the_claim_of_its_neighbours(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        db.sql("UPDATE issue SET generation = 9223372036854775807 WHERE id = 1");
        let answers = claim_ids::<Issue, _>(&mut conn, &[1, 2]);
        assert_eq!(texts(&answers), ["1 PENDING", "2 claimed"]);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_locked_row_is_busy_at_once_and_no_reason_to_wait(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3]);
        let _held = claim_one::<Issue, _>(&mut conn, 3);
        expire(db, 3);
        let mut other = open(db);
        other
            .batch_execute("BEGIN; SELECT * FROM issue WHERE id <> 2 FOR UPDATE")
            .unwrap();
        // A claim that waited would fail by this.
        conn.batch_execute("SET lock_timeout = '1ms'").unwrap();
        let answers = claim_ids::<Issue, _>(&mut conn, &[1, 2, 3]);
        assert_eq!(texts(&answers), ["1 busy", "2 claimed", "3 busy"]);
        other.batch_execute("ROLLBACK").unwrap();
        assert_eq!(
            texts(&claim_ids::<Issue, _>(&mut conn, &[1, 2, 3])),
            ["1 claimed", "2 running", "3 claimed"]
        );
    }
);

conformance!(
    #[skip(sqlite, "its commits are as durable as the file's settings say")]
    fn a_claim_is_durable_whatever_the_session_says(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        for (id, (before, within)) in [(1, ("off", "on")), (2, ("local", "local"))] {
            conn.batch_execute(&format!("SET synchronous_commit = {before}"))
                .unwrap();
            let claim = RowClaim {
                lease_token: uuid::Uuid::new_v4(),
                lease_ms: 1000,
            };
            conn.begin_write().unwrap();
            let table = <Issue as rows::RowOn<Connection>>::table();
            let found = conn.claim_rows(&table, &claim, &[id.to_string()]).unwrap();
            assert_eq!(found[0].claimed, Some(1));
            let show = |conn: &mut Connection| {
                let setting = diesel::dsl::sql::<diesel::sql_types::Text>("SHOW synchronous_commit");
                setting.get_result::<String>(conn).unwrap()
            };
            assert_eq!(show(&mut conn), within);
            AnsiTransactionManager::commit_transaction(&mut conn).unwrap();
            assert_eq!(show(&mut conn), before);
        }
    }
);

conformance!(
    fn lists_in_opposite_order_neither_deadlock_nor_give_a_row_twice(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let ids: Vec<i64> = (1..=40).collect();
        let mut conn = issues(db, &ids);
        for round in 1..=10 {
            let claimers: Vec<_> = (0..4)
                .map(|number| {
                    let (mut conn, mut ids) = (open(db), ids.clone());
                    if number % 2 == 1 {
                        ids.reverse();
                    }
                    thread::spawn(move || {
                        let answers = claim_ids::<Issue, _>(&mut conn, &ids);
                        let claimed = answers
                            .into_iter()
                            .filter_map(|(id, answer)| answer.claimed().map(|_| id));
                        claimed.collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut claimed: Vec<i64> = claimers
                .into_iter()
                .flat_map(|claimer| claimer.join().unwrap())
                .collect();
            // A row that one had locked for a moment may be busy for all others, and is claimed in the next call.
            claimed.extend(
                claim_ids::<Issue, _>(&mut conn, &ids)
                    .into_iter()
                    .filter_map(|(id, answer)| answer.claimed().map(|_| id)),
            );
            claimed.sort_unstable();
            assert_eq!(claimed, ids, "round {round}");
            db.sql("UPDATE issue SET processing_status = 'PENDING', lease_until = NULL");
        }
        assert_eq!(db.integer("SELECT count(*) FROM issue WHERE generation <> 10"), 0);
    }
);
