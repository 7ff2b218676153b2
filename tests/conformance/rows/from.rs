//! Claims of what a query selects.

use super::query::{desk, issue};
use super::*;

fn ids<R: OwnedRow<Id: Expression<SqlType = diesel::sql_types::BigInt>>>(leases: &[RowLease<R>]) -> Vec<i64> {
    leases.iter().map(|lease| *lease.id()).collect()
}

conformance!(
    fn the_query_says_which_and_in_which_order_and_the_limit_counts_what_is_claimed(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3, 4, 5, 6, 7]);
        let _held = claim_one::<Issue, _>(&mut conn, 6);
        db.sql("UPDATE issue SET title = 'zz' WHERE id IN (2, 6)");
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id = 7");
        let query = || {
            issue::table
                .order((issue::title.desc(), issue::id.desc()))
                .select(issue::id)
        };
        // Six and seven cannot be claimed, and are not counted.
        let first = rows::claim_from::<Issue, _, _>(&mut conn, query(), 3, MINUTE).unwrap();
        assert_eq!(ids(&first), [2, 5, 4]);
        let rest = rows::claim_from::<Issue, _, _>(&mut conn, query(), 10, MINUTE).unwrap();
        assert_eq!(ids(&rest), [3, 1]);
        assert!(
            rows::claim_from::<Issue, _, _>(&mut conn, query(), 10, MINUTE)
                .unwrap()
                .is_empty()
        );
        let none = rows::claim_from::<Issue, _, _>(&mut conn, query(), 0, MINUTE).unwrap();
        assert!(none.is_empty());
        for lease in first {
            lease.commit(&mut conn, "DONE", |_| Ok(())).unwrap();
        }
        assert_eq!(super::issue(db, 5), "DONE/1 token");
    }
);

conformance!(
    fn a_query_may_join_filter_by_values_and_select_an_id_twice(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3, 4]);
        db.sql("UPDATE issue SET desk = 2 WHERE id = 1; CREATE TABLE tag (issue bigint, tag text)");
        let joined = issue::table
            .inner_join(desk::table)
            .filter(desk::open.eq(true).and(issue::title.eq_any(["news", "it's"])))
            .filter(issue::id.ge(2))
            .order(issue::id)
            .select(issue::id)
            .into_boxed();
        let leases = rows::claim_from::<Issue, _, _>(&mut conn, joined, 2, MINUTE).unwrap();
        assert_eq!(ids(&leases), [2, 3]);
        // Each row of a join that multiplies it counts once.
        db.sql("INSERT INTO desk VALUES (3, true), (4, true)");
        let twice = diesel::dsl::sql::<diesel::sql_types::BigInt>(
            "SELECT issue.id FROM issue CROSS JOIN desk ORDER BY issue.id",
        );
        let leases = rows::claim_from::<Issue, _, _>(&mut conn, twice, 2, MINUTE).unwrap();
        assert_eq!(ids(&leases), [1, 4]);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn s2_11_of_a_join_only_the_owned_table_is_locked(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        let mut other = open(db);
        conn.begin_write().unwrap();
        let claim = RowClaim {
            lease_token: uuid::Uuid::new_v4(),
            lease_ms: 60_000,
        };
        let table = <Issue as rows::RowOn<Connection>>::table();
        let joined = issue::table
            .inner_join(desk::table)
            .filter(issue::id.eq(1))
            .select(issue::id);
        assert_eq!(conn.claim_rows_from(&table, &claim, joined, 10).unwrap().len(), 1);
        let mut probe = |lock: &str| other.batch_execute(lock).is_ok();
        assert!(!probe("SELECT * FROM issue WHERE id = 1 FOR UPDATE NOWAIT"), "claimed");
        assert!(
            probe("SELECT * FROM issue WHERE id = 2 FOR UPDATE NOWAIT"),
            "not asked for"
        );
        assert!(probe("SELECT * FROM desk FOR UPDATE NOWAIT"), "joined");
        // An article may name the issue meanwhile.
        assert!(probe("SELECT * FROM issue WHERE id = 1 FOR KEY SHARE NOWAIT"));
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_row_that_is_locked_for_a_join_elsewhere_is_skipped(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        let mut other = open(db);
        other
            .batch_execute("BEGIN; SELECT * FROM issue WHERE id = 1 FOR UPDATE")
            .unwrap();
        conn.batch_execute("SET lock_timeout = '1ms'").unwrap();
        let query = issue::table.order(issue::id).select(issue::id);
        let leases = rows::claim_from::<Issue, _, _>(&mut conn, query, 1, MINUTE).unwrap();
        assert_eq!(ids(&leases), [2], "what is locked is not counted");
    }
);
