//! What is refused, and by which exit code it is told.

use leasehold::Job as _;
use leasehold_tests::jobs::prepare;
use leasehold_tests::{TestDb, conformance};

use super::{leasehold, mail, program};

conformance! {
    /// Nothing said is not everything meant.
    fn whoever_names_no_job_changes_none(db: &mut Db) {
        let mut conn = prepare(db);
        mail("").enqueue(&mut conn).unwrap();
        for command in ["requeue", "cancel", "discard"] {
            leasehold(db, &[command]).refused(2, "which jobs?");
            leasehold(db, &[command, "1", "--kind", "mail"]).refused(2, "cannot be used with");
        }
        leasehold(db, &["cancel", "--state", "completed", "--yes"]).refused(3, "only ready and running");
        leasehold(db, &["cancel", "--all"]).refused(3, "Cancel 1 job?");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
    }
}

conformance! {
    fn a_database_without_the_tables_is_told(db: &mut Db) {
        for command in ["list", "schedules list"] {
            let words: Vec<&str> = command.split(' ').collect();
            leasehold(db, &words).refused(4, "are not there: run `leasehold::migrate`, or `leasehold migrate up`");
        }
    }
}

#[test]
fn a_database_must_be_named_and_there() {
    program(&["stats"]).refused(2, "LEASEHOLD_DATABASE_URL");
    program(&["--database", "/nowhere/queue.db", "stats"]).refused(2, "migrate up");
    program(&["--database", "/nowhere/queue.db", "migrate", "up"]).refused(4, "connect");
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_is_not_there_is_told() {
    program(&["--database", "postgres://127.0.0.1:1/none", "stats"]).refused(4, "connect");
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_backend_that_was_left_out_is_named() {
    program(&["--database", "postgres://127.0.0.1:1/none", "stats"]).refused(2, "--features postgres");
}

#[test]
fn durations_are_what_people_write() {
    program(&["--database", "x", "list", "--older-than", "tomorrow"]).refused(2, "--older-than");
    program(&["--database", "x", "list", "--older-than=-5s"]).refused(2, "negative");
}
