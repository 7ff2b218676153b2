//! Other tables: ids of other types, odd names, a schema.

use leasehold::rows::{Heartbeat, Keeper};
use leasehold_tests::eventually;

use super::*;

macro_rules! tables {
    ($module:ident, $until:ty) => {
        mod $module {
            diesel::table! {
                use diesel::sql_types::*;
                page (name) { name -> Text, state -> Text, generation -> BigInt, token -> Nullable<Text>, until -> $until }
            }
            diesel::table! {
                use diesel::sql_types::*;
                #[sql_name = "odd \"table"]
                odd (number) {
                    #[sql_name = "select"]
                    number -> Integer,
                    #[sql_name = "a \"state"]
                    state -> Text,
                    #[sql_name = "from"]
                    generation -> BigInt,
                    #[sql_name = "lease{token}"]
                    token -> Nullable<Text>,
                    #[sql_name = "Until"]
                    until -> $until,
                }
            }

            pub(super) struct Page;

            impl leasehold::rows::OwnedRow for Page {
                type Table = page::table;
                type Id = page::name;
                type Status = page::state;
                type Generation = page::generation;
                type LeaseToken = page::token;
                type LeaseUntil = page::until;
                const READY: &'static [&'static str] = &["new"];
                const RUNNING: &'static str = "running";
            }

            pub(super) struct Odd;

            impl leasehold::rows::OwnedRow for Odd {
                type Table = odd::table;
                type Id = odd::number;
                type Status = odd::state;
                type Generation = odd::generation;
                type LeaseToken = odd::token;
                type LeaseUntil = odd::until;
                const READY: &'static [&'static str] = &["it's new"];
                const RUNNING: &'static str = "running \"now\"";
            }
        }
    };
}

#[cfg(feature = "sqlite")]
tables!(sqlite, Nullable<BigInt>);
#[cfg(feature = "postgres")]
tables!(postgres, Nullable<Timestamptz>);

trait Tables: TestDb {
    type Page: OwnedRow;
    type Odd: OwnedRow;
    const UNTIL: &'static str;
}

#[cfg(feature = "sqlite")]
impl Tables for leasehold_tests::sqlite::Database {
    type Page = sqlite::Page;
    type Odd = sqlite::Odd;
    const UNTIL: &'static str = "bigint";
}

#[cfg(feature = "postgres")]
impl Tables for leasehold_tests::postgres::Database {
    type Page = postgres::Page;
    type Odd = postgres::Odd;
    const UNTIL: &'static str = "timestamptz";
}

conformance!(
    fn an_id_may_be_a_text_and_a_token_too(db: &mut Db) {
        type Page = <Db as Tables>::Page;
        let mut conn = open(db);
        db.sql(&format!(
            "CREATE TABLE page (name text PRIMARY KEY, state text NOT NULL, generation bigint NOT NULL DEFAULT 0, token text,
                until {});
             INSERT INTO page (name, state) VALUES ('it''s', 'new'), ('a,b', 'new'), ('7', 'new'), ('07', 'new')",
            <Db as Tables>::UNTIL
        ));
        let ids = ["7".to_owned(), "it's".to_owned(), "a,b".to_owned(), "none".to_owned()];
        let answers = rows::claim::<Page, _>(&mut conn, &ids, MINUTE).unwrap();
        assert!(matches!(answers[3], (_, Answer::Missing)));
        let leases: Vec<_> = answers.into_iter().filter_map(|(_, answer)| answer.claimed()).collect();
        assert_eq!(
            leases.iter().map(|lease| lease.id().as_str()).collect::<Vec<_>>(),
            ["7", "it's", "a,b"]
        );
        assert_eq!(leases[1].idempotency_key(), "page:it's");
        assert_eq!(
            db.text("SELECT state FROM page WHERE name = '07'").as_deref(),
            Some("new")
        );
        for lease in leases {
            assert_eq!(lease.heartbeat(&mut conn, MINUTE).unwrap(), Heartbeat::Renewed);
            lease.commit(&mut conn, "done", |_| Ok(())).unwrap();
        }
        assert_eq!(
            db.integer("SELECT count(*) FROM page WHERE state = 'done' AND generation = 1"),
            3
        );
    }
);

conformance!(
    fn odd_names_are_quoted_and_leases_of_several_tables_are_kept_by_one_keeper(db: &mut Db) {
        type Odd = <Db as Tables>::Odd;
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        db.sql(&format!(
            r#"CREATE TABLE "odd ""table" ("select" integer PRIMARY KEY, "a ""state" text NOT NULL, "from" bigint NOT NULL
                DEFAULT 0, "lease{{token}}" text, "Until" {});
               INSERT INTO "odd ""table" ("select", "a ""state") VALUES (1, 'it''s new'), (2, 'done')"#,
            <Db as Tables>::UNTIL
        ));
        let short = Duration::from_secs(3);
        let answers = rows::claim::<Odd, _>(&mut conn, &[1, 2], short).unwrap();
        let (_, first) = answers.into_iter().next().unwrap();
        let lease: RowLease<Odd> = first.claimed().unwrap();
        let issue = rows::claim::<Issue, _>(&mut conn, &[1], short)
            .unwrap()
            .remove(0)
            .1
            .claimed()
            .unwrap();
        let keeper = Keeper::<Connection>::start(db.url()).unwrap();
        keeper.keep(&lease);
        keeper.keep(&issue);
        let ends = "SELECT CAST(\"Until\" AS text) FROM \"odd \"\"table\" WHERE \"select\" = 1
            UNION ALL SELECT CAST(lease_until AS text) FROM issue";
        let before = db.texts(ends);
        eventually(MINUTE, "both were renewed", || {
            let now = db.texts(ends);
            now[0] != before[0] && now[1] != before[1]
        });
        lease.commit(&mut conn, "done", |_| Ok(())).unwrap();
        assert_eq!(
            db.integer("SELECT count(*) FROM \"odd \"\"table\" WHERE \"a \"\"state\" = 'done'"),
            2
        );
    }
);

#[cfg(feature = "postgres")]
mod in_a_schema {
    use super::*;

    diesel::table! {
        use diesel::sql_types::*;
        press.issue (id) {
            id -> Uuid,
            status -> Text,
            generation -> BigInt,
            token -> Nullable<Uuid>,
            until -> Nullable<Timestamptz>,
        }
    }

    struct Issue;

    impl OwnedRow for Issue {
        type Table = issue::table;
        type Id = issue::id;
        type Status = issue::status;
        type Generation = issue::generation;
        type LeaseToken = issue::token;
        type LeaseUntil = issue::until;
        const READY: &'static [&'static str] = &["PENDING"];
        const RUNNING: &'static str = "IN_PROGRESS";
    }

    #[test]
    fn a_table_of_a_schema_and_uuids_are_fine() {
        let mut db = leasehold_tests::postgres::database();
        let mut conn = open(&db);
        let id = uuid::Uuid::new_v4();
        db.sql(&format!(
            "CREATE SCHEMA press; CREATE TABLE press.issue (id uuid PRIMARY KEY, status varchar(20) NOT NULL, generation bigint
                NOT NULL DEFAULT 0, token uuid, until timestamptz);
             INSERT INTO press.issue (id, status) VALUES ('{id}', 'PENDING')"
        ));
        let query = issue::table.select(issue::id);
        let lease = rows::claim_from::<Issue, _, _>(&mut conn, query, 5, MINUTE)
            .unwrap()
            .remove(0);
        assert_eq!(
            (*lease.id(), lease.idempotency_key()),
            (id, format!("press.issue:{id}"))
        );
        assert_eq!(lease.heartbeat(&mut conn, MINUTE).unwrap(), Heartbeat::Renewed);
        lease.commit(&mut conn, "DONE", |_| Ok(())).unwrap();
        assert_eq!(db.text("SELECT status FROM press.issue").as_deref(), Some("DONE"));
    }
}

/// Leases are handed to threads.
#[test]
fn a_lease_may_be_sent_and_shared() {
    fn is_send_and_sync<T: Send + Sync>() {}
    #[cfg(feature = "sqlite")]
    is_send_and_sync::<RowLease<sqlite::Page>>();
    #[cfg(feature = "postgres")]
    is_send_and_sync::<RowLease<postgres::Page>>();
}
