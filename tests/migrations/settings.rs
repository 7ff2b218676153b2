//! Settings of the server that must not matter, on PostgreSQL.

use diesel::connection::SimpleConnection;
use leasehold::migrate;
use leasehold::migrate::Migrations;
use leasehold_tests::TestDb;
use leasehold_tests::postgres::database;

use crate::{ALL, catalog};

#[test]
fn the_search_path_does_not_matter() {
    let (mut db, mut usual) = (database(), database());
    migrate(&mut usual.connect()).unwrap();
    // Functions that a search path could put before the server's own.
    db.sql(
        "CREATE FUNCTION public.gen_random_uuid() RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid';
         CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
         CREATE FUNCTION public.octet_length(text) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    );
    let mut conn = db.connect();
    for path in ["nowhere", "public, pg_catalog"] {
        conn.batch_execute(&format!("SET search_path = {path}")).unwrap();
        assert_eq!(migrate(&mut conn).unwrap(), ALL);
        assert!(migrate(&mut conn).unwrap().is_empty());
        // The server prints the names of functions in full when its own are hidden.
        assert_eq!(catalog(&mut db), catalog(&mut usual));
        Migrations::new().down_all(&mut conn).unwrap();
    }
}

#[test]
fn the_servers_time_zone_does_not_matter() {
    let mut db = database();
    let mut conn = db.connect();
    // Diesel begins each session with UTC.
    conn.batch_execute("SET timezone = 'Asia/Kathmandu'").unwrap();
    assert_eq!(migrate(&mut conn).unwrap(), ALL);
    conn.batch_execute(r#"SELECT leasehold.enqueue('k', '1', '{"delay_ms": 60000}'), leasehold.enqueue('k', '1')"#)
        .unwrap();
    let off = "abs(extract(epoch FROM clock_timestamp() AT TIME ZONE 'UTC' - (%) AT TIME ZONE 'UTC')) < 30";
    for time in [
        "SELECT min(run_on) FROM leasehold.migrations",
        "SELECT created_at FROM leasehold.jobs WHERE scheduled",
        "SELECT run_at - interval '60 s' FROM leasehold.jobs WHERE scheduled",
        "SELECT run_at FROM leasehold.jobs WHERE NOT scheduled",
    ] {
        let right = off.replace('%', time);
        assert_eq!(db.text(&format!("SELECT {right}")).as_deref(), Some("true"), "{time}");
    }
}
