//! Connections and transactions.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use diesel::connection::{AnsiTransactionManager, Connection, SimpleConnection, TransactionManager};
use diesel::result::{ConnectionError, Error, QueryResult};
use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{ConnectionResult, QueryableByName, RunQueryDsl, SqliteConnection};
use parking_lot::FairMutex;

use super::begin_immediate;
use crate::backend::{Connect, ConnectionSettings, Isolation, ServerError, WriteGate};
use crate::commit::{depth, roll_back_to};
use crate::sql::Sql;

/// Other processes tell nobody that they wrote; asking costs a few microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// While this process is about to commit an enqueue.
const LOOK_OFTEN: Duration = Duration::from_millis(1);
/// How long an application's connection waits for its turn. It may have begun a transaction that Diesel does not know of,
/// and keep the database from whoever has the turn.
pub(super) const PATIENCE_FOR_TURN: Duration = Duration::from_millis(250);

/// One gate per database file, for as long as somebody has it.
static GATES: LazyLock<Mutex<HashMap<PathBuf, Weak<FairMutex<()>>>>> = LazyLock::new(Mutex::default);

/// `file` is empty for a database in memory or in a temporary file.
const SERVER: &str = "
    SELECT sqlite_version() AS version, (SELECT file FROM pragma_database_list WHERE name = 'main') AS file,
        (SELECT journal_mode FROM pragma_journal_mode) AS journal_mode,
        (SELECT synchronous FROM pragma_synchronous) AS synchronous
";
/// Not by the function of the same name: this reads no schema.
const DATABASES: &str = "PRAGMA database_list";
const JOURNAL_MODE: &str = "SELECT journal_mode AS text FROM pragma_journal_mode";
/// As a statement of its own it takes no lock; a query of the function of that name would read the schema first.
const BUSY_TIMEOUT: &str = "PRAGMA busy_timeout";
/// NORMAL forgets commits when the machine goes down: the fence would still hold, but not the promise.
pub(super) const SESSION: &str = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON";
/// The savepoint is the mark: it is gone when anything has ended this transaction.
pub(super) const BEGIN_COMMIT: &str = "BEGIN IMMEDIATE; SAVEPOINT leasehold_commit";
/// Not by the function of the same name, which parses the PRAGMA anew each time.
const DATA_VERSION: &str = "PRAGMA data_version";

#[derive(QueryableByName)]
struct Server {
    #[diesel(sql_type = Text)]
    version: String,
    #[diesel(sql_type = Text)]
    file: String,
    #[diesel(sql_type = Text)]
    journal_mode: String,
    #[diesel(sql_type = Integer)]
    synchronous: i32,
}

#[derive(QueryableByName)]
struct OneText {
    #[diesel(sql_type = Text)]
    text: String,
}

#[derive(QueryableByName)]
struct AttachedFile {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    file: String,
}

#[derive(QueryableByName)]
struct DataVersion {
    #[diesel(sql_type = BigInt)]
    data_version: i64,
}

#[derive(QueryableByName)]
struct BusyTimeout {
    #[diesel(sql_type = BigInt)]
    timeout: i64,
}

/// Does `work` with another busy timeout than the connection's own, in milliseconds.
pub(super) fn with_busy_timeout<T>(
    conn: &mut SqliteConnection,
    change: impl FnOnce(i64) -> i64,
    work: impl FnOnce(&mut SqliteConnection) -> T,
) -> QueryResult<T> {
    let before = Sql(BUSY_TIMEOUT, ()).get_result::<BusyTimeout>(conn)?.timeout;
    let during = change(before);
    if during == before {
        return Ok(work(conn));
    }
    conn.batch_execute(&format!("PRAGMA busy_timeout = {during}"))?;
    let done = work(conn);
    conn.batch_execute(&format!("PRAGMA busy_timeout = {before}"))?;
    Ok(done)
}

impl Connect for SqliteConnection {
    fn connect(url: &str, settings: &ConnectionSettings) -> ConnectionResult<Self> {
        let mut conn = Self::establish(url)?;
        conn.configure(settings)
            .map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }

    fn pool_url(url: &str) -> String {
        url.to_owned()
    }

    fn configure(&mut self, settings: &ConnectionSettings) -> QueryResult<()> {
        // First, so that the others wait too.
        self.batch_execute(&format!("PRAGMA busy_timeout = {}", settings.busy_timeout.as_millis()))?;
        use_wal(self, settings.busy_timeout)?;
        self.batch_execute(SESSION)
    }

    fn check_server(&mut self, allow_unsafe: bool) -> Result<Vec<String>, ServerError> {
        let server: Server = Sql(SERVER, ()).get_result(self)?;
        if server.file.is_empty() {
            return Err(ServerError::InMemory);
        }
        let mut version = server.version.split('.').map_while(|part| part.parse::<u32>().ok());
        // `->>` is the newest thing that the statements need.
        if (version.next(), version.next()) < (Some(3), Some(38)) {
            return Err(ServerError::TooOld {
                found: server.version,
                needed: "SQLite 3.38",
            });
        }
        let mut warnings = Vec::new();
        match server.synchronous {
            0 if !allow_unsafe => {
                return Err(ServerError::Unsafe {
                    setting: "synchronous = OFF".to_owned(),
                    remedy: "use synchronous = FULL",
                });
            }
            0 | 1 => warnings
                .push("synchronous is below FULL: a crash of the machine may lose acknowledged commits".to_owned()),
            _ => {}
        }
        match server.journal_mode.as_str() {
            "wal" => {}
            mode @ ("off" | "memory") if !allow_unsafe => {
                return Err(ServerError::Unsafe {
                    setting: format!("journal_mode = {mode}"),
                    remedy: "use journal_mode = WAL",
                });
            }
            mode => warnings.push(format!(
                "journal_mode is {mode}, not wal: readers and the writer wait for each other"
            )),
        }
        Ok(warnings)
    }

    fn begin_commit(&mut self, _: Option<Isolation>, _: &ConnectionSettings) -> QueryResult<()> {
        if depth(self)? > 0 {
            AnsiTransactionManager::begin_transaction(self)?;
            return self.batch_execute("SAVEPOINT leasehold_commit");
        }
        AnsiTransactionManager::begin_transaction_sql(self, BEGIN_COMMIT)
    }

    fn begin_write(&mut self) -> QueryResult<()> {
        begin_immediate(self)
    }

    fn begin_resolve(&mut self) -> QueryResult<()> {
        with_busy_timeout(self, |timeout| timeout.min(1000), begin_immediate)?
    }

    fn read_only<T, E>(&mut self, reads: impl FnOnce(&mut Self) -> Result<T, E>) -> QueryResult<Result<T, E>> {
        let before = depth(self)?;
        self.batch_execute("PRAGMA query_only = ON")?;
        // In a transaction, so that all reads see one state, as on PostgreSQL.
        let begun = AnsiTransactionManager::begin_transaction(self);
        let ran = begun.map(|()| catch_unwind(AssertUnwindSafe(|| reads(self))));
        roll_back_to(self, before);
        let writable = self.batch_execute("PRAGMA query_only = OFF");
        let answer = ran?.unwrap_or_else(|panic| resume_unwind(panic));
        writable?;
        if depth(self)? != before {
            return Err(Error::NotInTransaction);
        }
        Ok(answer)
    }

    fn write_gate(url: &str) -> WriteGate {
        let file = Self::establish(url).ok().and_then(|mut conn| database_file(&mut conn));
        gate_of(file.unwrap_or_else(|| PathBuf::from(url)))
    }

    fn in_turn<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        match database_file(self) {
            Some(file) => gate_of(file).hold_within(PATIENCE_FOR_TURN, || work(self)),
            None => work(self),
        }
    }

    fn wait_for_change(&mut self, seen: &mut i64, wake: &Receiver<()>, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        loop {
            let version = Sql(DATA_VERSION, ())
                .get_result::<DataVersion>(self)
                .map_or(0, |row| row.data_version);
            // An error looks like a change: the claim that follows meets it, and reports it.
            if version == 0 || std::mem::replace(seen, version) != version {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let step = left.min(if crate::wake::is_expected() {
                LOOK_OFTEN
            } else {
                LOOK_EVERY
            });
            match wake.recv_timeout(step) {
                Ok(()) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(step),
            }
        }
    }
}

/// The mode is kept in the file. Changing it fails at once, without waiting, when another connection is changing it too.
pub(super) fn use_wal(conn: &mut SqliteConnection, patience: Duration) -> QueryResult<()> {
    let deadline = Instant::now() + patience;
    loop {
        let tried = match Sql(JOURNAL_MODE, ()).get_result::<OneText>(conn) {
            Ok(mode) if mode.text == "wal" => return Ok(()),
            Ok(_) => conn.batch_execute("PRAGMA journal_mode = WAL"),
            Err(error) => Err(error),
        };
        match tried {
            Err(Error::DatabaseError(_, info)) if info.message().contains("locked") && Instant::now() < deadline => {
                thread::sleep(LOOK_EVERY);
            }
            tried => return tried,
        }
    }
}

/// SQLite's own answer, because an address may be a path, a `file:` URI with parameters, or lead over a link. `None` for a
/// database in memory or in a temporary file.
fn database_file(conn: &mut SqliteConnection) -> Option<PathBuf> {
    let databases: Vec<AttachedFile> = Sql(DATABASES, ()).load(conn).ok()?;
    let main = databases.into_iter().find(|database| database.name == "main")?;
    PathBuf::from(main.file).canonicalize().ok()
}

fn gate_of(file: PathBuf) -> WriteGate {
    let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = gates.get(&file).and_then(Weak::upgrade).unwrap_or_else(|| {
        gates.retain(|_, gate| gate.strong_count() > 0);
        let lock = Arc::default();
        gates.insert(file, Arc::downgrade(&lock));
        lock
    });
    WriteGate { lock: Some(lock) }
}
