#![expect(clippy::unwrap_used, reason = "a test may")]

//! What only SQLite does, and only in here can be seen: the mark of a commit, the write lock, the gate. What both
//! databases do is in the conformance tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::{Connection, SimpleConnection};
use diesel::r2d2::R2D2Connection;
use diesel::result::Error;
use diesel::sql_types::BigInt;
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};
use uuid::Uuid;

use super::{now_ms, write};
use crate::backend::*;
use crate::commit::{Commit, depth, roll_back_to};
use crate::handler::JobError;
use crate::lease::{Fence, Held, Slot};
use crate::schema::Schema;

/// A database file of its own.
struct Database(PathBuf);

impl Database {
    fn new() -> Self {
        let database = Self(std::env::temp_dir().join(format!("leasehold-{}.db", Uuid::new_v4())));
        let mut conn = database.connect();
        conn.batch_execute(include_str!("../../../migrations/sqlite/0001_jobs/up.sql")).unwrap();
        conn.batch_execute("CREATE TABLE written (id INTEGER PRIMARY KEY)").unwrap();
        database
    }

    fn url(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn connect(&self) -> SqliteConnection {
        SqliteConnection::connect(self.url(), &ConnectionSettings::default()).unwrap()
    }

    /// One that gives up soon.
    fn impatient(&self) -> SqliteConnection {
        let settings = ConnectionSettings { busy_timeout: Duration::from_millis(50), ..ConnectionSettings::default() };
        SqliteConnection::connect(self.url(), &settings).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.url()));
        }
    }
}

fn new_job() -> NewJob {
    NewJob {
        queue: "default".to_owned(),
        kind: "test",
        version: 1,
        payload: "{}".to_owned(),
        priority: 0,
        run_at: RunAt::After(0),
        max_attempts: 3,
        lease_ms: 60_000,
        idempotency_key: None,
        unique_key: None,
    }
}

fn serves() -> Vec<Served> {
    vec![Served { queue: "default".to_owned(), kind: "test".to_owned(), version: 1 }]
}

fn claim(conn: &mut SqliteConnection, limit: i64) -> Vec<Held> {
    let (lease_token, sent) = (Uuid::new_v4(), Instant::now());
    let request = ClaimRequest { serves: &serves(), limit, lease_token, worker: Uuid::new_v4(), begun: true };
    let rows = conn.claim(&Schema::default(), &request).unwrap();
    rows.iter().map(|row| Held::new(row, lease_token, None, sent)).collect()
}

fn enqueue_and_claim(conn: &mut SqliteConnection) -> Held {
    conn.insert(&Schema::default(), &[new_job()]).unwrap();
    claim(conn, 1).pop().unwrap()
}

fn written(conn: &mut SqliteConnection) -> i64 {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        rows: i64,
    }
    sql_query("SELECT count(*) AS rows FROM written").get_result::<Count>(conn).unwrap().rows
}

fn state(conn: &mut SqliteConnection, id: i64) -> String {
    conn.job(&Schema::default(), id).unwrap().unwrap().state
}

/// A slot on one connection; `broken` is what the last return said.
struct OneConnection<'a> {
    database: &'a Database,
    conn: SqliteConnection,
    schema: Schema,
    settings: ConnectionSettings,
    gate: WriteGate,
    savepoint: bool,
    broken: bool,
}

impl<'a> OneConnection<'a> {
    fn new(database: &'a Database) -> Self {
        Self {
            database,
            conn: database.connect(),
            schema: Schema::default(),
            settings: ConnectionSettings::default(),
            gate: SqliteConnection::write_gate(database.url()),
            savepoint: false,
            broken: false,
        }
    }

    fn commit(&mut self, held: &Held, writes: impl FnMut(&mut SqliteConnection) -> Result<(), JobError>) -> Result<(), JobError> {
        self.broken = false;
        Commit { held, strict: false, isolation: None, tries: 1 }.run(self, writes)
    }
}

impl Slot<SqliteConnection> for OneConnection<'_> {
    fn connection(&mut self) -> Result<&mut SqliteConnection, JobError> {
        Ok(&mut self.conn)
    }

    fn give_back(&mut self, broken: bool) {
        self.broken |= broken;
    }

    fn fresh(&self) -> Result<SqliteConnection, JobError> {
        Ok(self.database.connect())
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    fn write_gate(&self) -> &WriteGate {
        &self.gate
    }

    fn permits_savepoint(&self) -> bool {
        self.savepoint
    }
}

fn write_row(tx: &mut SqliteConnection) -> Result<(), JobError> {
    tx.batch_execute("INSERT INTO written DEFAULT VALUES")?;
    Ok(())
}

#[test]
fn a_closure_that_ends_its_transaction_completes_nothing_and_leaves_a_usable_connection() {
    let database = Database::new();
    let mut other = database.connect();
    let ends = [
        ("COMMIT", 1),
        ("ROLLBACK", 0),
        ("COMMIT; BEGIN", 1),
        ("ROLLBACK; BEGIN IMMEDIATE; INSERT INTO written DEFAULT VALUES", 0),
        ("COMMIT; BEGIN; INSERT INTO written DEFAULT VALUES; SAVEPOINT other", 1),
        ("INSERT OR ROLLBACK INTO written (id) VALUES (1), (1)", 0),
    ];
    for (raw, rows) in ends {
        let held = enqueue_and_claim(&mut other);
        let mut slot = OneConnection::new(&database);
        let before = written(&mut other);
        let answer = slot.commit(&held, |tx| {
            write_row(tx)?;
            // The last of them fails, and its error is swallowed.
            let _ = tx.batch_execute(raw);
            Ok(())
        });
        assert!(answer.unwrap_err().to_string().contains("ended the transaction itself"), "{raw}");
        assert_eq!(state(&mut other, held.fence.id), "running", "{raw}");
        assert_eq!(written(&mut other) - before, rows, "{raw}: what the closure itself committed");
        assert!(!slot.broken, "{raw}");
        assert!(!slot.conn.is_broken(), "{raw}");
        slot.commit(&held, write_row).unwrap();
        assert_eq!(state(&mut other, held.fence.id), "completed", "{raw}");
    }
}

#[test]
fn a_commit_in_a_test_transaction_is_a_savepoint_that_knows_its_end() {
    let database = Database::new();
    let mut slot = OneConnection::new(&database);
    slot.savepoint = true;
    slot.conn.begin_test_transaction().unwrap();
    let held = enqueue_and_claim(&mut slot.conn);
    slot.commit(&held, |_| Err(JobError::retry("no"))).unwrap_err();
    assert_eq!(state(&mut slot.conn, held.fence.id), "running");
    slot.commit(&held, write_row).unwrap();
    assert_eq!(state(&mut slot.conn, held.fence.id), "completed");
    assert_eq!(depth(&mut slot.conn).unwrap(), 1);

    let held = enqueue_and_claim(&mut slot.conn);
    let ended = slot.commit(&held, |tx| Ok(tx.batch_execute("ROLLBACK")?));
    assert!(ended.unwrap_err().to_string().contains("ended the transaction itself"));
    assert!(slot.broken, "its outer transaction is gone, so it must not be used on");
}

#[test]
fn a_panic_in_a_commit_frees_the_write_lock_and_the_gate() {
    let database = Database::new();
    let mut other = database.impatient();
    let held = enqueue_and_claim(&mut other);
    let mut slot = OneConnection::new(&database);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        slot.commit(&held, |tx| {
            write_row(tx)?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(written(&mut other), 0);
    slot.gate.hold(|| other.heartbeat(&Schema::default(), &[held.fence])).unwrap();
}

#[test]
fn a_busy_database_is_an_error_and_the_same_statement_succeeds_later() {
    let database = Database::new();
    let (mut holder, mut conn) = (database.connect(), database.impatient());
    let held = enqueue_and_claim(&mut conn);
    holder.begin_write().unwrap();
    let busy = conn.heartbeat(&Schema::default(), &[held.fence]).unwrap_err();
    assert!(busy.to_string().contains("locked"), "{busy}");
    assert!(conn.finish(&Schema::default(), &[held.fence]).is_err());
    assert!(conn.begin_commit(None, &ConnectionSettings::default()).is_err());
    assert_eq!(depth(&mut conn).unwrap(), 0);
    roll_back_to(&mut holder, 0);
    assert_eq!(conn.heartbeat(&Schema::default(), &[held.fence]).unwrap().len(), 1);
    assert_eq!(conn.finish(&Schema::default(), &[held.fence]).unwrap(), [held.fence.id]);
}

#[test]
fn the_time_is_read_after_the_wait_for_the_write_lock() {
    let database = Database::new();
    let (mut holder, mut conn) = (database.connect(), database.connect());
    holder.begin_write().unwrap();
    let (begun, has_begun) = mpsc::channel();
    let waiting = thread::spawn(move || {
        begun.send(()).unwrap();
        write(&mut conn, |_, now| Ok(now)).unwrap()
    });
    has_begun.recv().unwrap();
    // No event tells that the other waits; if it does not yet, the test holds all the same.
    thread::sleep(Duration::from_millis(100));
    let freed = now_ms();
    roll_back_to(&mut holder, 0);
    assert!(waiting.join().unwrap() >= freed);
}

#[test]
fn a_read_cannot_write_and_leaves_the_connection_writable() {
    let database = Database::new();
    let mut conn = database.connect();
    let write = |conn: &mut SqliteConnection| conn.batch_execute("INSERT INTO written DEFAULT VALUES");
    for raw in ["", "COMMIT; ", "ROLLBACK; BEGIN; "] {
        let refused = conn.read_only(|conn| conn.batch_execute(raw).and_then(|()| write(conn))).unwrap();
        assert!(refused.unwrap_err().to_string().contains("readonly"), "{raw}");
        assert_eq!(depth(&mut conn).unwrap(), 0, "{raw}");
        write(&mut conn).unwrap();
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        conn.read_only(|_| -> Result<(), Error> { panic!("on purpose") })
    }));
    assert!(panicked.is_err());
    write(&mut conn).unwrap();
}

#[test]
fn many_connections_open_a_new_file_at_once() {
    let path = std::env::temp_dir().join(format!("leasehold-{}.db", Uuid::new_v4()));
    let database = Database(path);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut conn = database.connect();
                assert_eq!(conn.check_server(false).unwrap(), Vec::<String>::new());
            });
        }
    });
}

#[test]
fn a_database_in_memory_and_a_weak_setting_are_told() {
    for url in [":memory:", "", "file::memory:?cache=shared", "file:some?mode=memory"] {
        let mut conn = SqliteConnection::connect(url, &ConnectionSettings::default()).unwrap();
        assert!(matches!(conn.check_server(true), Err(ServerError::InMemory)), "{url}");
    }
    let database = Database::new();
    let mut conn = database.connect();
    conn.batch_execute("PRAGMA synchronous = NORMAL; PRAGMA journal_mode = DELETE").unwrap();
    assert_eq!(conn.check_server(false).unwrap().len(), 2);
    conn.batch_execute("PRAGMA synchronous = OFF").unwrap();
    assert!(matches!(conn.check_server(false), Err(ServerError::Unsafe { .. })));
    assert_eq!(conn.check_server(true).unwrap().len(), 2);
}

#[test]
fn every_address_of_a_file_has_the_same_gate() {
    let database = Database::new();
    let gate = SqliteConnection::write_gate(database.url()).lock.unwrap();
    let link = Database(database.0.with_extension("link"));
    std::os::unix::fs::symlink(&database.0, &link.0).unwrap();
    for url in [format!("file:{}", database.url()), format!("file:{}?cache=private", database.url()), link.url().to_owned()] {
        assert!(std::sync::Arc::ptr_eq(&gate, &SqliteConnection::write_gate(&url).lock.unwrap()), "{url}");
    }
    let other = Database::new();
    assert!(!std::sync::Arc::ptr_eq(&gate, &SqliteConnection::write_gate(other.url()).lock.unwrap()));
}

#[test]
fn a_commit_of_another_connection_ends_the_wait_even_if_it_came_before() {
    let database = Database::new();
    let (mut waiter, mut writer) = (database.connect(), database.connect());
    let (wake, woken) = crossbeam_channel::bounded(1);
    let mut seen = 0;
    waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));
    writer.insert(&Schema::default(), &[new_job()]).unwrap();
    waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));

    let returned = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));
            returned.store(true, Ordering::Release);
            waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));
        });
        assert!(!returned.load(Ordering::Acquire));
        writer.insert(&Schema::default(), &[new_job()]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !returned.load(Ordering::Acquire) {
            assert!(Instant::now() < deadline, "the wait goes on");
            thread::yield_now();
        }
        wake.send(()).unwrap();
        waiting.join().unwrap();
    });
    let started = Instant::now();
    waiter.wait_for_change(&mut seen, &woken, Duration::from_millis(20));
    assert!(started.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_lost_answer_is_resolved_under_the_write_lock() {
    let database = Database::new();
    let (mut holder, mut conn) = (database.connect(), database.connect());
    let Fence { id, generation, lease_token } = enqueue_and_claim(&mut holder).fence;
    holder.begin_write().unwrap();
    let started = Instant::now();
    assert!(conn.begin_resolve().is_err());
    assert!((900..9000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    roll_back_to(&mut holder, 0);
    conn.begin_resolve().unwrap();
    let row = conn.lock_ownership(&Schema::default(), id).unwrap();
    let ours = Ownership { state: "running".to_owned(), generation, lease_token: Some(lease_token.to_string()) };
    assert_eq!(row, Some(ours));
}
