use leasehold::{Backend, Worker};
use leasehold_tests::jobs::{Note, prepare};
use leasehold_tests::{TestDb, conformance};

/// Why a worker on this database does not start.
#[track_caller]
fn refusal<C: Backend>(worker: Worker<C, ()>) -> String {
    worker.start().expect_err("it must not start").to_string()
}

conformance!(
    fn a_kind_registered_twice_is_refused(db: &mut Db) {
        prepare(db);
        let worker = || Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        let expected = "the kind `note` is registered twice: give one of the two types another kind";
        assert_eq!(refusal(worker().register::<Note>()), expected);
        assert_eq!(refusal(worker().register_alias::<Note>("note")), expected);
    }
);

conformance!(
    fn a_worker_without_kinds_is_refused(db: &mut Db) {
        prepare(db);
        let text = refusal(Worker::<Connection, _>::new(db.url(), ()));
        assert_eq!(
            text,
            "no job type is registered, and no relay: call `register::<J>()` before starting"
        );
    }
);

conformance!(
    fn a_queue_that_cannot_be_stored_is_refused(db: &mut Db) {
        prepare(db);
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        let text = refusal(worker.queues(["good", "b\0d"]));
        assert!(text.starts_with("the queue's name: "), "{text}");
    }
);

conformance!(
    fn a_database_without_the_tables_is_refused(db: &mut Db) {
        let text = refusal(Worker::<Connection, _>::new(db.url(), ()).register::<Note>());
        assert_eq!(
            text,
            "the tables of `leasehold` are not there: run `leasehold::migrate`, or `leasehold migrate up`"
        );
    }
);

conformance!(
    fn a_database_of_a_newer_program_is_refused(db: &mut Db) {
        prepare(db);
        db.sql("UPDATE leasehold.compatibility SET minimum_program = 99");
        let text = refusal(Worker::<Connection, _>::new(db.url(), ()).register::<Note>());
        assert!(text.contains("need a program of level 99"), "{text}");
        assert!(text.ends_with("update the program"), "{text}");
    }
);

#[cfg(feature = "sqlite")]
#[test]
fn a_database_in_memory_is_refused() {
    for url in [":memory:", ""] {
        let text = refusal(Worker::<diesel::SqliteConnection, _>::new(url, ()).register::<Note>());
        let told = "the database is in memory, and each connection would see a database of its own: give a file";
        assert_eq!(text, told, "{url:?}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_may_lose_commits_is_refused_unless_allowed() {
    use diesel::{Connection as _, PgConnection};

    for setting in ["fsync", "full_page_writes"] {
        let cluster = leasehold_tests::postgres::cluster_with(&[&format!("{setting}=off")]);
        leasehold::migrate(&mut PgConnection::establish(&cluster.url()).unwrap()).unwrap();
        let worker = || Worker::<PgConnection, _>::new(cluster.url(), ()).register::<Note>();
        let text = refusal(worker());
        assert!(text.contains(&format!("{setting} = off")), "{text}");
        assert!(text.contains("turn it on in postgresql.conf"), "{text}");
        worker().allow_unsafe_server().start().unwrap();
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_that_is_not_there_is_told_without_the_password() {
    let url = "postgres://me:s3cret@/db?host=/tmp/leasehold-nobody-listens-here";
    let text = refusal(Worker::<diesel::PgConnection, _>::new(url, ()).register::<Note>());
    assert!(text.starts_with("cannot connect to the database: "), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}
