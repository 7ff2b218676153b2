//! What migrating waits for on SQLite.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Integer;
use leasehold::migrate;
use leasehold_tests::TestDb;
use leasehold_tests::sqlite::database;

#[test]
fn no_write_lock_is_waited_for_when_nothing_is_pending() {
    let db = database();
    let (mut holder, mut conn) = (db.connect(), db.connect());
    migrate(&mut conn).unwrap();
    holder.batch_execute("BEGIN IMMEDIATE").unwrap();
    assert!(migrate(&mut conn).unwrap().is_empty());
    // That the holder does hold the write lock.
    conn.batch_execute("PRAGMA busy_timeout = 0").unwrap();
    assert!(conn.batch_execute("BEGIN IMMEDIATE").is_err());
}

#[test]
fn the_connections_own_patience_is_given_back() {
    #[derive(QueryableByName)]
    struct Setting {
        #[diesel(sql_type = Integer)]
        timeout: i32,
    }

    let db = database();
    for patience in [0, 1234, 60_000] {
        let mut conn = db.connect();
        conn.batch_execute(&format!("PRAGMA busy_timeout = {patience}"))
            .unwrap();
        migrate(&mut conn).unwrap();
        let setting: Setting = diesel::sql_query("PRAGMA busy_timeout").get_result(&mut conn).unwrap();
        assert_eq!(setting.timeout, patience);
    }
}
