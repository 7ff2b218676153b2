//! Heartbeats of rows.

use leasehold::rows::{Heartbeat, RowError, RowRefusal};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

conformance!(
    fn a_heartbeat_renews_the_lease_from_now_and_keeps_the_fence(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        assert_eq!(lease.heartbeat(&mut conn, HOUR).unwrap(), Heartbeat::Renewed);
        assert!(is_about(from_now(db, "issue", "lease_until", "id = 1"), HOUR));
        assert!(is_about(lease.remaining(), HOUR));
        // Also a shorter one, and one whose end has passed while nobody has taken the row.
        assert_eq!(lease.heartbeat(&mut conn, MINUTE).unwrap(), Heartbeat::Renewed);
        assert!(is_about(from_now(db, "issue", "lease_until", "id = 1"), MINUTE));
        expire(db, 1);
        assert_eq!(lease.heartbeat(&mut conn, MINUTE).unwrap(), Heartbeat::Renewed);
        assert_eq!(issue(db, 1), "IN_PROGRESS/1 token until");
        lease.commit(&mut conn, "DONE", |_| Ok(())).unwrap();
    }
);

conformance!(
    fn many_are_renewed_together_and_each_is_answered(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let ids: Vec<i64> = (1..=1203).collect();
        let mut conn = issues(db, &ids);
        let mut leases: Vec<_> = claim_ids::<Issue, _>(&mut conn, &ids)
            .into_iter()
            .filter_map(|(_, answer)| answer.claimed())
            .collect();
        assert_eq!(leases.len(), 1203);
        expire(db, 7);
        let next = claim_one::<Issue, _>(&mut conn, 7);
        db.sql("DELETE FROM issue WHERE id = 8; UPDATE issue SET processing_status = 'DONE' WHERE id = 1203");
        let all: Vec<_> = leases.iter().collect();
        let beats = rows::heartbeat(&mut conn, &all, HOUR).unwrap();
        assert_eq!(beats.len(), 1203);
        for (index, beat) in beats.into_iter().enumerate() {
            let expected = match index + 1 {
                7 => Heartbeat::Lost(RowRefusal::Lost { generation: 2 }),
                8 => Heartbeat::Lost(RowRefusal::Missing),
                1203 => Heartbeat::Lost(RowRefusal::AlreadyFinished {
                    status: "DONE".to_owned(),
                }),
                _ => Heartbeat::Renewed,
            };
            assert_eq!(beat, expected, "{}", index + 1);
        }
        assert_eq!(leases[6].check(), Err(RowRefusal::Lost { generation: 2 }));
        assert!(leases[7].is_lost() && !leases[8].is_lost());
        assert!(is_about(next.remaining(), MINUTE), "not its own");
        assert!(rows::heartbeat::<Issue, _>(&mut conn, &[], HOUR).unwrap().is_empty());
        leases.truncate(1);
        assert_eq!(leases[0].heartbeat(&mut conn, MINUTE).unwrap(), Heartbeat::Renewed);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_locked_row_is_neither_waited_for_nor_called_lost(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        let (one, two) = (claim_one::<Issue, _>(&mut conn, 1), claim_one::<Issue, _>(&mut conn, 2));
        let mut other = open(db);
        other
            .batch_execute("BEGIN; SELECT * FROM issue WHERE id = 1 FOR UPDATE")
            .unwrap();
        conn.batch_execute("SET lock_timeout = '1ms'").unwrap();
        let beats = rows::heartbeat(&mut conn, &[&one, &two], HOUR).unwrap();
        assert_eq!(beats, [Heartbeat::Skipped, Heartbeat::Renewed]);
        assert!(is_about(one.remaining(), MINUTE) && !one.is_lost());
    }
);

conformance!(
    fn a_heartbeat_that_fails_leaves_the_lease_as_it_is(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        let refused = conn.transaction(|tx| Ok::<_, diesel::result::Error>(lease.heartbeat(tx, HOUR)));
        assert!(matches!(refused.unwrap(), Err(RowError::InTransaction)));
        db.sql("ALTER TABLE issue RENAME TO away");
        assert!(matches!(lease.heartbeat(&mut conn, HOUR), Err(RowError::Database(_))));
        assert!(!lease.is_lost() && is_about(lease.remaining(), MINUTE));
        db.sql("ALTER TABLE away RENAME TO issue");
        assert_eq!(lease.heartbeat(&mut conn, HOUR).unwrap(), Heartbeat::Renewed);
    }
);

conformance!(
    fn a_lease_that_was_not_renewed_is_lost_by_this_processs_clock(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let answers = rows::claim::<Issue, _>(&mut conn, &[1], Duration::from_millis(20)).unwrap();
        let lease = answers.into_iter().next().unwrap().1.claimed().unwrap();
        leasehold_tests::eventually(MINUTE, "the lease ends", || lease.is_lost());
        assert_eq!(lease.check(), Err(RowRefusal::Expired));
        assert_eq!(lease.remaining(), Duration::ZERO);
        // The database decides: nobody has taken it.
        assert_eq!(lease.heartbeat(&mut conn, MINUTE).unwrap(), Heartbeat::Renewed);
        assert!(!lease.is_lost());
    }
);
