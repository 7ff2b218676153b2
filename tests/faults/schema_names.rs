use leasehold::migrate::Migrations;
use leasehold::{EnqueueOptions, Job, Schema};
use leasehold_tests::postgres::database;

use crate::probe::*;

#[test]
fn schema_names_that_look_like_parts_of_the_statements_work() {
    let long = "a".repeat(32);
    for name in [
        "leasehold_b",
        "leasehold_",
        "x_leasehold",
        "select",
        "user",
        "leasehold",
        &long,
    ] {
        let mut db = database();
        let schema = Schema::named(name).unwrap();
        let mut conn = db.connect();
        Migrations::in_schema(&schema).up(&mut conn).unwrap();
        let options = EnqueueOptions::new().schema(&schema).idempotency_key("once");
        probe("").enqueue_with(&mut conn, &options).unwrap();
        db.sql(&format!(r#"SELECT "{name}".enqueue('probe', '{{"text":""}}')"#));
        let running = worker(&db, |_, lease| lease.commit(|_| Ok(())))
            .schema(&schema)
            .start()
            .unwrap();
        wait_completed(&running, 2);
        drop(running);
        let finished = format!(r#"SELECT count(*) FROM "{name}".finished_jobs WHERE state = 'completed'"#);
        assert_eq!(db.integer(&finished), 2, "{name}");
        Migrations::in_schema(&schema).down_all(&mut conn).unwrap();
        let left = "SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
            WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!'";
        assert_eq!(db.integer(left), 0, "{name}");
    }
}
