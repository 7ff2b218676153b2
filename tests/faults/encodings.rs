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
