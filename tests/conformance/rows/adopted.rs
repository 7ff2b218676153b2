//! Rows that were running before anything knew leases.

use super::*;

conformance!(
    fn running_rows_without_a_lease_are_left_until_they_are_given_one(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3]);
        db.sql("UPDATE issue SET processing_status = 'IN_PROGRESS' WHERE id <> 3");
        assert_eq!(
            texts(&claim_ids::<Issue, _>(&mut conn, &[1, 2])),
            ["1 running", "2 running"]
        );
        assert_eq!(rows::adopt::<Issue, _>(&mut conn, MINUTE).unwrap(), 2);
        assert_eq!(rows::adopt::<Issue, _>(&mut conn, MINUTE).unwrap(), 0, "once");
        assert!(is_about(from_now(db, "issue", "lease_until", "id = 1"), MINUTE));
        assert_eq!(
            texts(&claim_ids::<Issue, _>(&mut conn, &[1])),
            ["1 running"],
            "within the grace"
        );
        expire(db, 1);
        assert_eq!(claim_one::<Issue, _>(&mut conn, 1).generation(), 1);
        assert_eq!(issue(db, 3), "PENDING/0");
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_locked_row_is_given_a_lease_the_next_time(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        db.sql("UPDATE issue SET processing_status = 'IN_PROGRESS'");
        let mut other = open(db);
        other
            .batch_execute("BEGIN; SELECT * FROM issue WHERE id = 1 FOR UPDATE")
            .unwrap();
        conn.batch_execute("SET lock_timeout = '1ms'").unwrap();
        assert_eq!(rows::adopt::<Issue, _>(&mut conn, MINUTE).unwrap(), 1);
        other.batch_execute("ROLLBACK").unwrap();
        assert_eq!(rows::adopt::<Issue, _>(&mut conn, MINUTE).unwrap(), 1);
    }
);
