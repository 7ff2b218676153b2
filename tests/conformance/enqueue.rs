//! Enqueue: rows in the caller's transaction, with every option; what is refused never reaches the database.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use diesel::r2d2::{ConnectionManager, Pool};
use diesel::result::Error;
use leasehold::error::NameError;
use leasehold::inspect::{self, State};
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job};
use serde::{Deserialize, Serialize};

use crate::support::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

conformance!(
    fn an_enqueue_is_part_of_the_callers_transaction(db: &mut Db) {
        migrated(db);
        let mut conn = db.connect();
        let undone = conn.transaction(|tx| {
            write(tx, 1)?;
            note("undone").enqueue(tx)?;
            Err::<(), EnqueueError>(Error::RollbackTransaction.into())
        });
        assert!(matches!(
            undone,
            Err(EnqueueError::Database(Error::RollbackTransaction))
        ));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        assert!(written(db).is_empty());

        let done = conn.transaction(|tx| {
            write(tx, 2)?;
            let enqueued = note("done").enqueue(tx)?;
            assert_eq!(
                db.integer("SELECT count(*) FROM leasehold.jobs"),
                0,
                "seen before the commit"
            );
            Ok::<_, EnqueueError>(enqueued)
        });
        assert_eq!(written(db), [2]);
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs"), done.unwrap().id());
    }
);

conformance!(
    fn a_connection_out_of_a_pool_enqueues(db: &mut Db) {
        migrated(db);
        let pool = Pool::builder()
            .max_size(1)
            .build(ConnectionManager::<Connection>::new(db.url()))
            .unwrap();
        let mut pooled = pool.get().unwrap();
        let id = note("pooled").enqueue(&mut pooled).unwrap().id();
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs"), id);
    }
);

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "report", queue = "slow", priority = -7, max_attempts = 3, lease = "5m", version = 4)]
struct Report {
    month: u8,
}

conformance!(
    fn a_job_is_stored_with_the_settings_of_its_kind(db: &mut Db) {
        let mut conn = migrated(db);
        let before = SystemTime::now() - Duration::from_secs(1);
        let enqueued = Report { month: 2 }.enqueue(&mut conn).unwrap();
        assert!(enqueued.is_new());
        let job = inspect::job(&mut conn, &default_schema(), enqueued.id())
            .unwrap()
            .unwrap();
        assert_eq!(
            (job.queue.as_str(), job.kind.as_str(), job.version),
            ("slow", "report", 4)
        );
        assert_eq!(job.payload, r#"{"month":2}"#);
        assert_eq!((job.state, job.priority, job.max_attempts), (State::Ready, -7, 3));
        assert_eq!((job.attempt, job.generation), (0, 0));
        assert!(before < job.run_at && job.run_at <= SystemTime::now());
        assert!(before < job.created_at && job.created_at <= SystemTime::now());
        assert_eq!((job.finished_at, job.reason, job.cancel_requested), (None, None, false));
        assert!(is_free(db, job.id));
        assert_eq!(db.integer("SELECT lease_ms FROM leasehold.jobs"), 300_000);
        assert_eq!(db.integer("SELECT CAST(scheduled AS integer) FROM leasehold.jobs"), 0);
        assert_eq!(db.texts("SELECT CAST(lease_token AS text) FROM leasehold.jobs"), [None]);
        Report { month: 2 }.enqueue(&mut conn).unwrap();
        assert_eq!(
            db.integer("SELECT count(DISTINCT idempotency_key) FROM leasehold.jobs"),
            2
        );
    }
);

conformance!(
    fn options_replace_the_settings_of_the_kind(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new()
            .queue("urgent")
            .priority(i16::MAX)
            .max_attempts(u32::try_from(i32::MAX).unwrap())
            .lease(Duration::from_millis(1))
            .idempotency_key("invoice 7");
        let id = Report { month: 3 }.enqueue_with(&mut conn, &options).unwrap().id();
        let job = inspect::job(&mut conn, &default_schema(), id).unwrap().unwrap();
        assert_eq!((job.queue.as_str(), job.priority), ("urgent", 32767));
        assert_eq!(
            (job.max_attempts, job.idempotency_key.as_str()),
            (i32::MAX.unsigned_abs(), "invoice 7")
        );
        assert_eq!(db.integer("SELECT lease_ms FROM leasehold.jobs"), 1);
    }
);

conformance!(
    fn a_run_time_is_kept_and_schedules_the_job_only_if_it_is_to_come(db: &mut Db) {
        let mut conn = migrated(db);
        let at = |seconds: i64| {
            let distance = Duration::from_secs(seconds.unsigned_abs());
            match seconds >= 0 {
                true => SystemTime::UNIX_EPOCH + distance,
                false => SystemTime::UNIX_EPOCH - distance,
            }
        };
        // Given, kept, and whether it is to come. Long past is due, however long.
        for (given, kept, scheduled) in [
            (-86_400, 0, false),
            (0, 0, false),
            (1_000_000_000, 1_000_000_000, false),
            (32_503_680_000, 32_503_680_000, true),
            (253_402_300_799, 253_402_300_799, true),
        ] {
            let options = EnqueueOptions::new().delay(DAY).run_at(at(given));
            let id = note("timed").enqueue_with(&mut conn, &options).unwrap().id();
            let job = inspect::job(&mut conn, &default_schema(), id).unwrap().unwrap();
            assert_eq!(job.run_at, at(kept), "{given}");
            let is_scheduled = db.integer(&format!(
                "SELECT CAST(scheduled AS integer) FROM leasehold.jobs WHERE id = {id}"
            ));
            assert_eq!(is_scheduled == 1, scheduled, "{given}");
        }
    }
);

conformance!(
    fn a_delay_counts_from_now_by_the_databases_clock(db: &mut Db) {
        let mut conn = migrated(db);
        let options = EnqueueOptions::new().run_at(SystemTime::UNIX_EPOCH).delay(DAY);
        let id = note("later").enqueue_with(&mut conn, &options).unwrap().id();
        assert!(is_about(
            from_now(db, "leasehold.jobs", "run_at", &format!("id = {id}")),
            DAY
        ));
        assert_eq!(db.integer("SELECT CAST(scheduled AS integer) FROM leasehold.jobs"), 1);
    }
);

conformance!(
    fn many_jobs_are_enqueued_in_their_order(db: &mut Db) {
        let mut conn = migrated(db);
        let notes: Vec<Note> = (0..2500).map(|number| note(number.to_string())).collect();
        let enqueued = Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
        assert!(enqueued.iter().all(Enqueued::is_new));
        assert!(enqueued.windows(2).all(|two| two[0].id() < two[1].id()));
        let stored = conn.open_jobs(&default_schema(), "note").unwrap();
        assert_eq!(stored.len(), 2500);
        for ((stored, enqueued), note) in stored.iter().zip(&enqueued).zip(&notes) {
            assert_eq!(stored.id, enqueued.id());
            assert_eq!(stored.payload, serde_json::to_string(note).unwrap());
        }
        assert_eq!(Note::enqueue_all(&[], &mut conn, &EnqueueOptions::new()).unwrap(), []);
    }
);

conformance!(
    fn an_error_in_the_middle_enqueues_none_of_many(db: &mut Db) {
        let mut conn = migrated(db);
        let mut notes: Vec<Note> = (0..2500).map(|number| note(number.to_string())).collect();
        // The database's error, in the third statement.
        db.sql("CREATE UNIQUE INDEX few ON leasehold.jobs (queue) WHERE id > 2100");
        let refused = Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new());
        assert!(matches!(refused, Err(EnqueueError::Database(Error::DatabaseError(..)))));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        // The connection is outside of any transaction again.
        note("after").enqueue(&mut conn).unwrap();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);

        notes[1700].text.push('\0');
        let refused = Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new());
        assert!(matches!(refused, Err(EnqueueError::PayloadNul { kind }) if kind == "note"));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 1);
    }
);

conformance!(
    /// On PostgreSQL the caller's transaction is aborted by it; here it goes on.
    #[skip(postgres, "an error of the server ends the transaction")]
    fn an_error_in_the_middle_leaves_nothing_in_a_transaction_that_goes_on(db: &mut Db) {
        migrated(db);
        let mut conn = db.connect();
        let notes: Vec<Note> = (0..2500).map(|number| note(number.to_string())).collect();
        db.sql("CREATE UNIQUE INDEX few ON leasehold.jobs (queue) WHERE id > 2100");
        conn.transaction(|tx| {
            assert!(Note::enqueue_all(&notes, tx, &EnqueueOptions::new()).is_err());
            write(tx, 1)
        })
        .unwrap();
        assert_eq!(written(db), [1]);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    fn odd_names_of_queues_are_names_like_any_other(db: &mut Db) {
        let mut conn = migrated(db);
        let names = [
            "it's \"quoted\"".to_owned(),
            "; drop table leasehold_jobs; --".to_owned(),
            "📮 письма".to_owned(),
            "$1 ? %s {}".to_owned(),
            "é".repeat(64),
            "x".repeat(128),
        ];
        for name in &names {
            let options = EnqueueOptions::new().queue(name);
            let id = note(name).enqueue_with(&mut conn, &options).unwrap().id();
            let (rows, _) = claim_served(&mut conn, &[served(name, "note", 1)], 10);
            assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id], "{name}");
            assert_eq!(&rows[0].queue, name);
        }
    }
);

/// A map whose keys no JSON object can have.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "unserializable")]
struct Unserializable(BTreeMap<(i32, i32), i32>);

#[derive(Serialize, Deserialize)]
struct NoVersion;

impl Job for NoVersion {
    const KIND: &'static str = "no-version";
    const VERSION: u32 = 0;
}

/// The error of one refused enqueue on `tx`.
fn refusal(tx: &mut impl AsBackend, options: EnqueueOptions) -> EnqueueError {
    note("refused").enqueue_with(tx, &options).unwrap_err()
}

conformance!(
    /// On PostgreSQL a statement that failed would have aborted the transaction.
    fn what_is_refused_leaves_the_callers_transaction_usable(db: &mut Db) {
        migrated(db);
        let mut conn = db.connect();
        let new = EnqueueOptions::new;
        conn.transaction(|tx| {
            write(tx, 1)?;
            let refused = Unserializable([((1, 2), 3)].into()).enqueue(tx);
            assert!(matches!(refused, Err(EnqueueError::Serialize { kind, .. }) if kind == "unserializable"));
            let refused = note("x".repeat(leasehold::EnqueueOptions::MAX_PAYLOAD_BYTES)).enqueue(tx);
            assert!(matches!(refused, Err(EnqueueError::PayloadTooLarge { kind, bytes }) if kind == "note" && bytes == 1024 * 1024 + 11));
            assert!(matches!(note("a\0b").enqueue(tx), Err(EnqueueError::PayloadNul { kind }) if kind == "note"));
            assert!(matches!(
                refusal(tx, new().queue("")),
                EnqueueError::Queue(NameError::Length { bytes: 0, max: 128 })
            ));
            assert!(matches!(
                refusal(tx, new().queue("x".repeat(129))),
                EnqueueError::Queue(NameError::Length { bytes: 129, max: 128 })
            ));
            assert!(matches!(
                refusal(tx, new().queue("a\nb")),
                EnqueueError::Queue(NameError::Character { character: '\n' })
            ));
            assert!(matches!(
                refusal(tx, new().idempotency_key("")),
                EnqueueError::IdempotencyKey(NameError::Length { bytes: 0, max: 255 })
            ));
            assert!(matches!(
                refusal(tx, new().idempotency_key("é".repeat(128))),
                EnqueueError::IdempotencyKey(NameError::Length { bytes: 256, max: 255 })
            ));
            assert!(matches!(
                refusal(tx, new().run_at(SystemTime::UNIX_EPOCH + 3_000_000 * DAY)),
                EnqueueError::RunAt
            ));
            assert!(matches!(refusal(tx, new().delay(Duration::MAX)), EnqueueError::RunAt));
            for attempts in [0, 1 << 31] {
                let refused = refusal(tx, new().max_attempts(attempts));
                assert!(matches!(refused, EnqueueError::OutOfRange { option: "max_attempts", .. }));
            }
            for lease in [Duration::ZERO, Duration::from_micros(999), 366 * DAY, Duration::MAX] {
                let refused = refusal(tx, new().lease(lease));
                assert!(matches!(refused, EnqueueError::OutOfRange { option: "lease", .. }));
            }
            let refused = NoVersion.enqueue(tx);
            assert!(matches!(refused, Err(EnqueueError::OutOfRange { option: "VERSION", .. })));
            let refused = Note::enqueue_all(&[note("a"), note("b")], tx, &new().idempotency_key("one"));
            assert!(matches!(refused, Err(EnqueueError::OneKeyForMany { jobs: 2 })));
            note("good").enqueue(tx)?;
            Ok::<_, EnqueueError>(())
        })
        .unwrap();
        assert_eq!(written(db), [1]);
        assert_eq!(
            db.texts("SELECT CAST(payload AS text) FROM leasehold.jobs"),
            [Some(r#"{"text":"good"}"#.to_owned())]
        );
    }
);
