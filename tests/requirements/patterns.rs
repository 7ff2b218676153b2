//! Ways to change a row that somebody else changes, too; and what a plain insert of a job means.

use leasehold::__private::*;
use leasehold::error::ServerError;
#[cfg(feature = "postgres")]
use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, StartError, Worker};
use leasehold_tests::{TestDb, conformance};

use crate::jobs::{claim, migrated};
#[cfg(feature = "postgres")]
use crate::row_locks::accounts;
#[cfg(feature = "postgres")]
use crate::session::Session;

#[cfg(feature = "postgres")]
const BALANCE: &str = "SELECT balance FROM accounts WHERE id = 1";

conformance! {
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn s2_01_read_and_write_loses_an_update_and_with_for_update_does_not(db: &mut Db) {
        accounts(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        a.run("BEGIN");
        b.run("BEGIN");
        for session in [&mut a, &mut b] {
            let read = session.integer(BALANCE);
            assert_eq!(read, 1000);
        }
        for session in [&mut a, &mut b] {
            session.run("UPDATE accounts SET balance = 1000 - 100 WHERE id = 1; COMMIT");
        }
        assert_eq!(db.integer(BALANCE), 900);

        db.sql("UPDATE accounts SET balance = 1000");
        a.run("BEGIN");
        b.run("BEGIN");
        let locked = format!("{BALANCE} FOR UPDATE");
        let read = a.integer(&locked);
        let b = b.waits(db, move |b| b.integer(&locked));
        a.run(&format!("UPDATE accounts SET balance = {read} - 100 WHERE id = 1; COMMIT"));
        let (mut b, read) = b.answer();
        assert_eq!(read, 900);
        b.run(&format!("UPDATE accounts SET balance = {read} - 100 WHERE id = 1; COMMIT"));
        assert_eq!(db.integer(BALANCE), 800);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn s2_02_a_change_inside_of_the_statement_is_not_lost(db: &mut Db) {
        accounts(db);
        let (mut a, b) = (Session::of(db), Session::of(db));
        let withdraw = "UPDATE accounts SET balance = balance - 100 WHERE id = 1";
        a.run(&format!("BEGIN; {withdraw}"));
        let b = b.waits(db, move |b| b.rows(withdraw));
        a.run("COMMIT");
        assert_eq!(b.answer().1, 1);
        assert_eq!(db.integer(BALANCE), 800);
    }
}

#[cfg(feature = "postgres")]
#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(kind = "nothing")]
struct Nothing {}

#[cfg(feature = "postgres")]
impl<C: Backend> Handler<C> for Nothing {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        lease.finish()
    }
}

#[cfg(feature = "postgres")]
#[test]
fn s2_05_a_server_without_skip_locked_is_refused_at_start() {
    // A server's version cannot be set, so this one is made to say it of itself.
    let cluster = leasehold_tests::postgres::cluster();
    let mut conn: diesel::PgConnection = diesel::Connection::establish(&cluster.url()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    let start = || {
        Worker::<diesel::PgConnection, _>::new(cluster.url(), ())
            .register::<Nothing>()
            .start()
    };
    assert!(conn.check_server(false).unwrap().is_empty());
    drop(start().unwrap());
    Session::new(conn).run(
        "ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO real_setting;
         CREATE FUNCTION pg_catalog.current_setting(text) RETURNS text STABLE LANGUAGE sql AS
            $$ SELECT CASE $1 WHEN 'server_version' THEN '9.4.26' WHEN 'server_version_num' THEN '90426'
                ELSE pg_catalog.real_setting($1) END $$",
    );
    let refused = start().unwrap_err();
    let StartError::Server(ServerError::TooOld { found, needed }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((found.as_str(), needed), ("9.4.26", "13"));
}

conformance! {
    fn s2_07_a_plain_insert_is_a_job_that_is_due(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql(match Db::BACKEND {
            "sqlite" => "INSERT INTO leasehold.jobs (queue, kind, payload, max_attempts, lease_ms, run_at, created_at)
                VALUES ('default', 'test', '{}', 5, 60000, 0, 0)",
            _ => "INSERT INTO leasehold.jobs (queue, kind, payload, max_attempts, lease_ms)
                VALUES ('default', 'test', '{}', 5, 60000)",
        });
        let defaults = "id = 1 AND state = 'ready' AND version = 1 AND priority = 0 AND NOT scheduled AND attempt = 0
            AND generation = 0 AND lease_token IS NULL AND lease_until IS NULL AND worker IS NULL AND NOT begun
            AND cancel_requested_at IS NULL AND unique_key IS NULL AND length(idempotency_key) >= 32";
        assert_eq!(db.integer(&format!("SELECT count(*) FROM leasehold.jobs WHERE {defaults}")), 1);
        if Db::BACKEND == "postgres" {
            let times = "SELECT count(*) FROM leasehold.jobs WHERE clock_timestamp() - run_at < interval '1 minute'
                AND clock_timestamp() - created_at < interval '1 minute'";
            assert_eq!(db.integer(times), 1);
        }
        assert_eq!(claim(&mut conn).id, 1);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn s2_13_of_two_writers_of_the_same_version_the_second_waits_and_changes_nothing(db: &mut Db) {
        accounts(db);
        let (mut a, b) = (Session::of(db), Session::of(db));
        let write = "UPDATE accounts SET balance = 0, version = version + 1 WHERE id = 1 AND version = 1";
        a.run("BEGIN");
        assert_eq!(a.rows(write), 1);
        let b = b.waits(db, move |b| b.rows(write));
        a.run("COMMIT");
        assert_eq!(b.answer().1, 0);
    }
}
