use std::sync::atomic::{AtomicU32, Ordering};

use diesel::PgConnection;
use leasehold::{Job, JobError};
use leasehold_tests::postgres::database;

use crate::probe::*;

/// The database's own encoding has no such characters, and refuses a statement that binds them.
#[test]
fn an_error_that_the_database_cannot_spell_is_recorded_all_the_same() {
    let mut db = database();
    db.sql("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    let name = db.text("SELECT current_database()").unwrap();
    let url = db.url().replace(&name, "latin");
    {
        use diesel::Connection as _;
        let mut conn = PgConnection::establish(&url).unwrap();
        leasehold::migrate(&mut conn).unwrap();
        for text in ["discard", "retry", "cancel"] {
            probe(text).enqueue(&mut conn).unwrap();
        }
        let worker = worker_at::<PgConnection, _>(url, |probe, lease| match probe.text.as_str() {
            "discard" => Err(JobError::discard("no such file: 邮件")),
            "retry" => Err(JobError::retry("→ 📮")),
            _ => lease.cancel("not needed: 邮"),
        });
        let summary = worker.run_until_empty().unwrap();
        assert_eq!(
            (
                summary.counts.discarded,
                summary.counts.retried,
                summary.counts.cancelled
            ),
            (2, 2, 1)
        );
        let reasons = "SELECT reason FROM leasehold.finished_jobs ORDER BY id";
        let mut reasons: Vec<String> =
            diesel::RunQueryDsl::load(diesel::dsl::sql::<diesel::sql_types::Text>(reasons), &mut conn).unwrap();
        assert_eq!(reasons.remove(0), r"no such file: \u{90ae}\u{4ef6}");
    }
    db.sql("DROP DATABASE latin WITH (FORCE)");
}

#[test]
fn a_steps_result_that_the_database_cannot_spell_is_recorded_all_the_same() {
    let mut db = database();
    db.sql("CREATE DATABASE latin_steps ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    let name = db.text("SELECT current_database()").unwrap();
    let url = db.url().replace(&name, "latin_steps");
    {
        use diesel::Connection as _;
        let mut conn = PgConnection::establish(&url).unwrap();
        leasehold::migrate(&mut conn).unwrap();
        probe("").enqueue(&mut conn).unwrap();
        let calls = AtomicU32::new(0);
        let worker = worker_at::<PgConnection, _>(url, move |_, mut lease| {
            let town = lease.step("where", |_| match calls.fetch_add(1, Ordering::AcqRel) {
                0 => Ok("Łódź \"📮\"".to_owned()),
                _ => Err(JobError::discard("called again")),
            })?;
            match lease.attempt() {
                1 => Err(JobError::retry("once more")),
                _ => Err(JobError::discard(town)),
            }
        });
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.retried, summary.counts.discarded), (1, 1));
        let reason = "SELECT reason FROM leasehold.finished_jobs";
        let reason: String =
            diesel::RunQueryDsl::get_result(diesel::dsl::sql::<diesel::sql_types::Text>(reason), &mut conn).unwrap();
        assert_eq!(reason, r#"\u{141}\u{f3}d\u{17a} "\u{1f4ee}""#);
    }
    db.sql("DROP DATABASE latin_steps WITH (FORCE)");
}
