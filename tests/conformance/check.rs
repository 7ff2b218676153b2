//! What a check finds, each thing brought about on purpose.

use leasehold::check::{Finding, Severity, Thresholds, check, check_at, check_by};
use leasehold::manage::{self, Scope};
use leasehold::{EnqueueOptions, Job};

use crate::schedules::{move_next, put, yearly};
use crate::support::*;

/// What is more than advice.
#[track_caller]
pub(crate) fn found<C: Backend>(conn: &mut C) -> Vec<Finding> {
    let mut findings = check(conn, &default_schema()).unwrap();
    assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity())));
    findings.retain(|finding| finding.severity() > Severity::Advice);
    findings
}

/// The one thing that is wrong, and says what to do.
#[track_caller]
pub(crate) fn only<C: Backend>(conn: &mut C) -> Finding {
    let mut findings = found(conn);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].remedy().ends_with('.'), "{}", findings[0].remedy());
    findings.remove(0)
}

conformance!(
    fn nothing_is_wrong_with_what_was_just_made(db: &mut Db) {
        let mut conn = migrated(db);
        if Db::BACKEND == "postgres" {
            conn.batch_execute("SET idle_in_transaction_session_timeout = '60s'")
                .unwrap();
        }
        // Not even advice.
        assert_eq!(check(&mut conn, &default_schema()).unwrap(), []);
    }
);

conformance!(
    fn an_index_that_somebody_dropped_is_missed_by_its_name(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("DROP INDEX leasehold.jobs_held");
        let finding = only(&mut conn);
        assert!(
            matches!(&finding, Finding::Index { name, invalid: false } if name.ends_with("jobs_held")),
            "{finding:?}"
        );
        assert!(finding.to_string().ends_with("jobs_held is missing"), "{finding}");
    }
);

conformance!(
    fn leases_that_nobody_takes_back_are_counted(db: &mut Db) {
        let mut conn = migrated(db);
        for _ in 0..3 {
            note("late").enqueue(&mut conn).unwrap();
        }
        assert_eq!(claim_notes(&mut conn).len(), 3);
        assert_eq!(found(&mut conn), []);
        db.set_time("leasehold.jobs", "lease_until", -60_000, "id <> 2");
        let finding = only(&mut conn);
        let Finding::LeasesExpired {
            jobs,
            oldest,
            locked_by: None,
        } = finding
        else {
            panic!("{finding:?}");
        };
        assert_eq!((jobs, oldest.as_secs() / 60), (2, 1));
        let patient = Thresholds::default().lease(std::time::Duration::from_secs(600));
        let findings = check_by(&mut conn, &default_schema(), &patient).unwrap();
        assert!(
            !findings
                .iter()
                .any(|finding| matches!(finding, Finding::LeasesExpired { .. }))
        );
    }
);

conformance!(
    fn queues_whose_jobs_nobody_serves_are_named(db: &mut Db) {
        let mut conn = migrated(db);
        for queue in ["a", "b", "b", "c"] {
            let options = EnqueueOptions::new().queue(queue);
            note("waits").enqueue_with(&mut conn, &options).unwrap();
        }
        let later = EnqueueOptions::new()
            .queue("later")
            .delay(std::time::Duration::from_secs(3600));
        note("scheduled").enqueue_with(&mut conn, &later).unwrap();
        let mut worker = WorkerRow {
            id: uuid::Uuid::new_v4(),
            host: "here".to_owned(),
            pid: 1,
            threads: 1,
            queues: vec!["b".to_owned(), "d".to_owned()],
            kinds: vec![("note".to_owned(), 1)],
        };
        conn.show_worker(&default_schema(), &worker).unwrap();
        let unserved = |queues: &[&str]| -> Vec<Finding> {
            let queue = |queue: &&str| Finding::QueueUnserved {
                queue: (*queue).to_owned(),
            };
            queues.iter().map(queue).collect()
        };
        assert_eq!(found(&mut conn), unserved(&["a", "c"]));
        worker.id = uuid::Uuid::new_v4();
        worker.queues = vec!["c".to_owned(), "a".to_owned()];
        conn.show_worker(&default_schema(), &worker).unwrap();
        assert_eq!(found(&mut conn), []);
        // One that has said nothing for so long is gone.
        db.set_time("leasehold.workers", "heartbeat_at", -120_000, "pid = 1");
        assert_eq!(found(&mut conn), unserved(&["a", "b", "c"]));
    }
);

conformance!(
    fn kinds_and_versions_without_a_handler_are_named(db: &mut Db) {
        let mut conn = migrated(db);
        for queue in ["a", "a", "b", "c"] {
            let options = EnqueueOptions::new().queue(queue);
            note("waits").enqueue_with(&mut conn, &options).unwrap();
        }
        db.sql(
            "UPDATE leasehold.jobs SET kind = 'nota' WHERE id = 2; UPDATE leasehold.jobs SET version = 3 WHERE id = 3",
        );
        let mut worker = WorkerRow {
            id: uuid::Uuid::new_v4(),
            host: "here".to_owned(),
            pid: 1,
            threads: 1,
            queues: vec!["a".to_owned(), "b".to_owned()],
            kinds: vec![("mail".to_owned(), 1), ("note".to_owned(), 2)],
        };
        conn.show_worker(&default_schema(), &worker).unwrap();
        // A handler in another queue is none here.
        worker.id = uuid::Uuid::new_v4();
        worker.queues = vec!["c".to_owned()];
        worker.kinds = vec![("nota".to_owned(), 9), ("note".to_owned(), 3)];
        conn.show_worker(&default_schema(), &worker).unwrap();
        let unserved = |queue: &str, kind: &str, version| Finding::KindUnserved {
            queue: queue.to_owned(),
            kind: kind.to_owned(),
            version,
        };
        assert_eq!(found(&mut conn), [unserved("a", "nota", 1), unserved("b", "note", 3)]);
        worker.id = uuid::Uuid::new_v4();
        worker.queues = vec!["a".to_owned(), "b".to_owned()];
        conn.show_worker(&default_schema(), &worker).unwrap();
        assert_eq!(found(&mut conn), []);
    }
);

conformance!(
    fn a_schedule_that_should_have_fired_is_named(db: &mut Db) {
        let mut conn = migrated(db);
        put(&mut conn, &yearly("in time"));
        put(&mut conn, &yearly("late"));
        move_next(db, "late", -120_000);
        let finding = only(&mut conn);
        assert!(
            matches!(&finding, Finding::ScheduleLate { name, by } if name == "late" && by.as_secs() / 60 == 2),
            "{finding:?}"
        );
    }
);

conformance!(
    fn a_pause_that_has_held_for_a_day_is_told(db: &mut Db) {
        let mut conn = migrated(db);
        manage::pause(&mut conn, &default_schema(), Scope::Queue("mail"), "ada", "no paper").unwrap();
        manage::pause(&mut conn, &default_schema(), Scope::All, "ada", "night").unwrap();
        assert_eq!(found(&mut conn), []);
        db.set_time("leasehold.pauses", "at", -48 * 3_600_000, "scope = 'queue'");
        let finding = only(&mut conn);
        let Finding::PausedForLong { since, .. } = &finding else {
            panic!("{finding:?}");
        };
        assert_eq!(since.as_secs() / 3600, 48);
        let text = "the queue \"mail\" is paused, for 48 hours, by \"ada\": no paper";
        assert_eq!(
            (finding.name(), finding.to_string().as_str()),
            ("paused_for_long", text)
        );
        let strict = Thresholds::default().pause(std::time::Duration::ZERO);
        let findings = check_by(&mut conn, &default_schema(), &strict).unwrap();
        assert!(
            findings
                .iter()
                .any(|finding| finding.to_string().starts_with("everything is paused")),
            "{findings:?}"
        );
    }
);

conformance!(
    fn a_check_on_connections_of_its_own_finds_the_same_and_no_pooler(db: &mut Db) {
        let mut conn = migrated(db);
        note("waits").enqueue(&mut conn).unwrap();
        let mut findings = check_at::<Connection>(&db.url(), &default_schema(), &Thresholds::default()).unwrap();
        findings.retain(|finding| !matches!(finding, Finding::Setting { .. }));
        assert_eq!(findings, found(&mut conn));
        assert_eq!(findings[0].name(), "queue_unserved");
    }
);

#[cfg(feature = "sqlite")]
#[test]
fn what_is_wrong_with_a_file_is_found() {
    use diesel::{Connection as _, SqliteConnection};

    let mut db = <leasehold_tests::sqlite::Database as TestDb>::new();
    drop(migrated(&mut db));
    // As an application opens it, without anybody else.
    let mut conn = SqliteConnection::establish(&db.url()).unwrap();
    let small = Thresholds::default().wal_bytes(4096);
    conn.batch_execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = NORMAL")
        .unwrap();
    let findings = check_by(&mut conn, &default_schema(), &small).unwrap();
    let unsafe_setting = Finding::UnsafeSetting {
        name: "synchronous",
        value: "NORMAL".to_owned(),
    };
    assert_eq!(findings, [unsafe_setting]);
    assert_eq!(findings[0].severity(), Severity::Danger);
    conn.batch_execute(
        "PRAGMA synchronous = FULL; CREATE TABLE large (text TEXT); INSERT INTO large VALUES (zeroblob(1000000))",
    )
    .unwrap();
    let findings = check_by(&mut conn, &default_schema(), &small).unwrap();
    assert!(
        matches!(findings[..], [Finding::WalFile { bytes }] if bytes > 1_000_000),
        "{findings:?}"
    );
    conn.batch_execute("DROP TABLE large; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let findings = check_by(&mut conn, &default_schema(), &small).unwrap();
    assert!(
        matches!(findings[..], [Finding::FreePages { bytes }] if bytes > 900_000),
        "{findings:?}"
    );
    drop(db);
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_that_is_not_in_wal_mode_is_found() {
    use diesel::{Connection as _, SqliteConnection};

    let directory = tempfile::tempdir().unwrap();
    let mut conn = SqliteConnection::establish(directory.path().join("jobs.db").to_str().unwrap()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    // The migration has set it.
    conn.batch_execute("PRAGMA journal_mode = DELETE").unwrap();
    let mode = "delete".to_owned();
    assert_eq!(only(&mut conn), Finding::JournalMode { mode });
}
