//! The seam between the queue and a database: one small trait for each stage of a job's life, on Diesel's own
//! connection types.
//!
//! One method is one statement and has one caller. [`postgres`] and [`sqlite`] hold the statements, in files of the
//! same names, so that the two can be read side by side; the conformance tests hold them equal.

use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, Connection, SimpleConnection};
use diesel::r2d2::{ConnectionManager, PooledConnection, R2D2Connection};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{ConnectionResult, QueryableByName};
use uuid::Uuid;

use crate::lease::Fence;
use crate::schema::Schema;

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// A connection that the queue runs on: `PgConnection` (feature `postgres`) or `SqliteConnection` (feature `sqlite`).
///
/// Sealed: the fence depends on what the statements behind it do, so they are not open to other implementations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection that leasehold runs on",
    note = "use `diesel::PgConnection` (feature `postgres`) or `diesel::SqliteConnection` (feature `sqlite`)"
)]
pub trait Backend:
    Connection<TransactionManager = AnsiTransactionManager>
    + SimpleConnection
    + R2D2Connection
    + Send
    + Sized
    + 'static
    + Connect
    + EnqueueStatements
    + ClaimStatements
    + LeaseStatements
    + CommitStatements
    + SettleStatements
    + SweepStatements
    + WorkerStatements
    + InspectStatements
    + crate::migrate::Migrate
    + AsBackend<Connection = Self>
{
    /// The backend's name in logs and reports: `postgres` or `sqlite`.
    const NAME: &'static str;
}

/// What jobs can be enqueued on: `&mut PgConnection`, `&mut SqliteConnection`, or either of them out of an r2d2 pool,
/// inside a transaction or not.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection that leasehold works on",
    note = "use `diesel::PgConnection` (feature `postgres`), `diesel::SqliteConnection` (feature `sqlite`) or a pooled one"
)]
pub trait AsBackend: sealed::Sealed {
    /// The connection type behind it.
    type Connection: Backend;

    /// Borrows the connection.
    fn as_backend(&mut self) -> &mut Self::Connection;
}

impl<C: Backend> AsBackend for PooledConnection<ConnectionManager<C>> {
    type Connection = C;

    fn as_backend(&mut self) -> &mut C {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    #[cfg(feature = "postgres")]
    impl Sealed for diesel::PgConnection {}
    #[cfg(feature = "sqlite")]
    impl Sealed for diesel::SqliteConnection {}
    impl<C: super::Backend> Sealed for super::PooledConnection<super::ConnectionManager<C>> {}
}

/// How connections are opened and transactions are begun.
pub trait Connect: Sized {
    /// Opens a control connection: with time limits on silence, and the session settings that our statements want.
    fn connect(url: &str, settings: &ConnectionSettings) -> ConnectionResult<Self>;

    /// The URL for the handlers' pool, with time limits on silence added where the URL states none.
    fn pool_url(url: &str) -> String;

    /// Session settings for a connection of the handlers' pool.
    fn configure(&mut self, settings: &ConnectionSettings) -> QueryResult<()>;

    /// Refuses a server that cannot keep the promise; returns warnings about settings that weaken it.
    fn check_server(&mut self, allow_unsafe: bool) -> Result<Vec<String>, ServerError>;

    /// Begins the transaction of a commit and marks it, so that the completion can tell whether it is still the same one.
    /// At depth one or more (a test's transaction) it opens a savepoint instead.
    fn begin_commit(&mut self, isolation: Option<Isolation>, settings: &ConnectionSettings) -> QueryResult<()>;

    /// Begins a transaction that will write: on SQLite it takes the write lock at once, because a transaction that
    /// upgrades later fails when another one wrote in between.
    fn begin_write(&mut self) -> QueryResult<()>;

    /// Begins a short transaction in which a row is read under its lock; waits one second for it at the most.
    fn begin_resolve(&mut self) -> QueryResult<()>;

    /// Runs reads that cannot write.
    fn read_only<T, E>(&mut self, reads: impl FnOnce(&mut Self) -> Result<T, E>) -> QueryResult<Result<T, E>>;

    /// What must be held while a transaction of this process writes to `url`: a fair gate on SQLite, nothing on
    /// PostgreSQL.
    fn write_gate(url: &str) -> WriteGate;

    /// Starts a thread that wakes the claimer when something was enqueued, until its handle is told to stop. `None` where the
    /// backend has nothing to listen to.
    fn listen(
        url: &str,
        settings: &ConnectionSettings,
        schema: &Schema,
        wake: crossbeam_channel::Sender<()>,
    ) -> std::io::Result<Option<Listening>> {
        let _ = (url, settings, schema, wake);
        Ok(None)
    }

    /// Waits until something may have been enqueued, `timeout` at the most, or until `wake` receives. Returns at once on a
    /// backend that is told by a listener. `seen` is what the last call on this connection left there, at first zero, so
    /// that nothing is missed between two calls; the first one returns at once.
    fn wait_for_change(&mut self, seen: &mut i64, wake: &crossbeam_channel::Receiver<()>, timeout: Duration);
}

/// Settings for the connections that the runtime opens.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// Whether a pooler in transaction mode sits between: no session settings, no cached statements, no `LISTEN`.
    pub transaction_pooler: bool,
    /// How long a transaction of ours may idle before the server ends it.
    pub idle_in_transaction: Duration,
    /// How long SQLite waits for another process's write.
    pub busy_timeout: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            transaction_pooler: false,
            idle_in_transaction: Duration::from_secs(60),
            busy_timeout: Duration::from_secs(10),
        }
    }
}

/// The server cannot keep the promise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting that lets a crash lose or tear what was committed.
    #[error("the server runs with {setting}: a crash may lose acknowledged commits; {remedy}")]
    Unsafe {
        /// The setting and its value.
        setting: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A server that lacks what the statements need.
    #[error("the server's version is {found}; leasehold needs {needed} or newer")]
    TooOld {
        /// The version found.
        found: String,
        /// The least version.
        needed: &'static str,
    },
    /// The database is in memory, or in a temporary file.
    #[error("the database is in memory, and each connection would see a database of its own: give a file")]
    InMemory,
    /// The settings could not be read.
    #[error("cannot read the server's settings: {0}")]
    Database(#[from] diesel::result::Error),
}

/// The isolation level of a commit's transaction. SQLite's transactions are serializable whatever is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

/// A thread that listens. Dropping `stop` ends it.
#[derive(Debug)]
pub struct Listening {
    pub(crate) thread: std::thread::JoinHandle<()>,
    pub(crate) stop: std::io::PipeWriter,
}

/// Held while writing; see [`Connect::write_gate`].
#[derive(Debug, Clone, Default)]
pub struct WriteGate {
    #[cfg(feature = "sqlite")]
    pub(crate) lock: Option<std::sync::Arc<parking_lot::FairMutex<()>>>,
}

impl WriteGate {
    /// Whether a writer keeps all others waiting.
    pub(crate) fn is_held_alone(&self) -> bool {
        #[cfg(feature = "sqlite")]
        return self.lock.is_some();
        #[cfg(not(feature = "sqlite"))]
        return false;
    }

    /// Runs `work` while holding the gate, in order of arrival.
    pub(crate) fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        #[cfg(feature = "sqlite")]
        let _held = self.lock.as_ref().map(|lock| lock.lock());
        work()
    }
}

// ---- enqueue ----

/// A job as it is written by enqueue. Checked before it gets here.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub queue: String,
    pub kind: &'static str,
    pub version: i32,
    pub payload: String,
    pub priority: i16,
    pub run_at: RunAt,
    pub max_attempts: i32,
    pub lease_ms: i64,
    /// `None`: the database makes a random one.
    pub idempotency_key: Option<String>,
    pub unique_key: Option<String>,
}

/// When a job may run, by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunAt {
    /// Milliseconds from now; zero is at once.
    After(i64),
    /// Milliseconds since 1970.
    At(i64),
}

/// A key that at most one job may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    pub key: String,
    pub job_id: i64,
    pub fingerprint: String,
    /// How long the key is remembered, in milliseconds; `None`: until the job ends.
    pub keep_ms: Option<i64>,
}

/// Who has a key.
#[derive(Debug, QueryableByName)]
pub struct KeyHolder {
    #[diesel(sql_type = Text)]
    pub key: String,
    #[diesel(sql_type = BigInt)]
    pub job_id: i64,
    #[diesel(sql_type = Text)]
    pub fingerprint: String,
}

pub trait EnqueueStatements {
    /// Inserts jobs (1 to 1,000) and wakes listeners; the ids are in the order of `jobs`.
    fn insert(&mut self, schema: &Schema, jobs: &[NewJob]) -> QueryResult<Vec<i64>>;

    /// Takes the keys that nobody has, waiting for whoever is about to commit one; returns the keys taken.
    fn take_keys(&mut self, schema: &Schema, keys: &[NewKey]) -> QueryResult<Vec<String>>;

    /// Removes expired ones among `keys`.
    fn drop_expired_keys(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<usize>;

    /// Who has each of `keys`.
    fn key_holders(&mut self, schema: &Schema, keys: &[String]) -> QueryResult<Vec<KeyHolder>>;

    /// Undoes [`EnqueueStatements::insert`] in the same transaction, for jobs that did not get their keys: rows that are
    /// `ready`, of generation 0, and the keys that point to them.
    fn withdraw(&mut self, schema: &Schema, ids: &[i64]) -> QueryResult<usize>;
}

// ---- claim ----

/// What a claim asks for.
#[derive(Debug, Clone)]
pub struct ClaimRequest<'a> {
    /// What the program serves: (queue, kind, version), each version that it can decode on a line of its own.
    pub serves: &'a [Served],
    /// Rows at the most.
    pub limit: i64,
    /// Fresh from the operating system's random source for this call.
    pub lease_token: Uuid,
    pub worker: Uuid,
    /// Whether handlers begin at once; false for a claim that prefetches.
    pub begun: bool,
}

/// One (queue, kind, version) that a program serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    pub queue: String,
    pub kind: String,
    pub version: i32,
}

/// A claimed row, as the claim returned it.
#[derive(Debug, Clone, QueryableByName)]
pub struct ClaimedRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub version: i32,
    #[diesel(sql_type = Text)]
    pub payload: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = BigInt)]
    pub lease_ms: i64,
    #[diesel(sql_type = Text)]
    pub idempotency_key: String,
}

/// What waits in the queues that a program serves: a plain count, for the cold path only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, QueryableByName)]
pub struct Waiting {
    /// Ready and due.
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    /// Held by any worker.
    #[diesel(sql_type = BigInt)]
    pub running: i64,
    /// Ready, with a run time still to come.
    #[diesel(sql_type = BigInt)]
    pub scheduled: i64,
    /// Milliseconds until the next scheduled one is due; zero when it is due already.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub next_due_ms: Option<i64>,
}

pub trait ClaimStatements {
    /// Makes scheduled rows that have come due claimable, `limit` at the most; returns how many.
    fn promote(&mut self, schema: &Schema, serves: &[Served], limit: i64) -> QueryResult<usize>;

    /// Claims rows: one statement, committed when it returns. The caller has made sure that no transaction is open.
    /// The rows come in no particular order.
    fn claim(&mut self, schema: &Schema, request: &ClaimRequest<'_>) -> QueryResult<Vec<ClaimedRow>>;

    /// The rows of a claim whose answer was lost, by its token.
    fn find_claimed(&mut self, schema: &Schema, lease_token: Uuid) -> QueryResult<Vec<ClaimedRow>>;

    /// What is left in what the program serves. Of each (queue, kind, version) and state no more than `at_most` are
    /// counted: a claimer that found nothing asks whether there is anything, and must not pay for a long queue.
    fn waiting(&mut self, schema: &Schema, serves: &[Served], at_most: i64) -> QueryResult<Waiting>;
}

// ---- lease ----

/// The answer of a heartbeat for one row that is still ours. A lease that was presented and is not among the answers is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct Beat {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// False: the row was locked, most likely by its own commit; nothing is known.
    #[diesel(sql_type = Bool)]
    pub renewed: bool,
    #[diesel(sql_type = Bool)]
    pub cancel_requested: bool,
}

pub trait LeaseStatements {
    /// Records that handlers begin on these leases; returns the ids that are still ours.
    fn begin(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>>;

    /// Renews leases, 500 at the most, without waiting for a locked row.
    fn heartbeat(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<Beat>>;
}

// ---- commit ----

/// What a row says of its ownership, wherever it is now.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct Ownership {
    /// `ready`, `running`, `completed`, `discarded` or `cancelled`.
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// The token of the last lease, hyphenated.
    #[diesel(sql_type = Nullable<Text>)]
    pub lease_token: Option<String>,
}

/// What the fenced completion found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// One row: it may be committed.
    Completed,
    /// No row under this fence.
    Refused,
    /// The transaction of the commit is not open any more: a raw `COMMIT` or `ROLLBACK` ended it. Nothing was written.
    Ended,
}

pub trait CommitStatements {
    /// The fenced completion, last in the transaction begun by [`Connect::begin_commit`]. `strict`: the row is locked first
    /// and must not have outlived its lease by then.
    fn complete(&mut self, schema: &Schema, fence: &Fence, strict: bool) -> QueryResult<Completion>;

    /// The row in `jobs` under its lock, waiting for whoever has it; part of a transaction.
    fn lock_ownership(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Ownership>>;

    /// The row in `jobs`, else in `finished_jobs`, without a lock: the diagnosis after zero rows.
    fn ownership(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<Ownership>>;
}

// ---- settle ----

/// A failed attempt, to be kept with the job. Made storable before it gets here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptError {
    /// `error`, `panic`, `timeout` or `lease expired`.
    pub cause: &'static str,
    pub error: String,
}

/// How a running job goes back to `ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// Milliseconds from now until it may run.
    pub delay_ms: i64,
    /// Whether the attempt counts.
    pub uses_attempt: bool,
    /// Whether ownership is taken from a handler that may still run: generation + 1.
    pub takes_away: bool,
    pub error: Option<AttemptError>,
}

/// How a running job ends without being completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// `discarded` or `cancelled`.
    pub state: &'static str,
    pub reason: Option<String>,
    /// Whether ownership is taken from a handler that may still run: generation + 1.
    pub takes_away: bool,
    pub error: Option<AttemptError>,
}

pub trait SettleStatements {
    /// Completes many in one statement, rows locked in id order; returns the ids that were ours.
    fn finish(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>>;

    /// Puts one back to `ready`; 1 row if it was ours, else 0.
    fn put_back(&mut self, schema: &Schema, fence: &Fence, how: &PutBack) -> QueryResult<usize>;

    /// Ends one as discarded or cancelled; 1 row if it was ours, else 0.
    fn end(&mut self, schema: &Schema, fence: &Fence, how: &End) -> QueryResult<usize>;

    /// Puts back leases on which no handler has begun, as the caller knows, attempt given back; returns the ids that were
    /// ours.
    fn release(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>>;

    /// Asks a running job to stop (`cancel_requested_at`), leaving its generation; 0 when it is not running.
    fn request_cancel(&mut self, schema: &Schema, id: i64) -> QueryResult<usize>;

    /// Ends a ready or running job as cancelled, generation + 1; 0 when it has ended already.
    fn cancel(&mut self, schema: &Schema, id: i64, reason: &str) -> QueryResult<usize>;
}

// ---- sweep ----

/// A row that the sweep took back.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct Swept {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    /// The new generation.
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// The new state: `ready`, `discarded` or `cancelled`.
    #[diesel(sql_type = Text)]
    pub state: String,
}

pub trait SweepStatements {
    /// Takes back expired leases, `limit` at the most, without waiting for locked rows.
    fn sweep(&mut self, schema: &Schema, limit: i64) -> QueryResult<Vec<Swept>>;

    /// Removes expired keys, `limit` at the most.
    fn sweep_keys(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize>;
}

// ---- the table of workers ----

/// A running worker process, as it shows itself.
#[derive(Debug, Clone)]
pub struct WorkerRow {
    pub id: Uuid,
    pub host: String,
    pub pid: i32,
    pub threads: i32,
    pub queues: Vec<String>,
}

pub trait WorkerStatements {
    /// Writes or renews this process's row.
    fn show_worker(&mut self, schema: &Schema, worker: &WorkerRow) -> QueryResult<usize>;

    /// Removes this process's row, and those not renewed for an hour.
    fn hide_worker(&mut self, schema: &Schema, id: Uuid) -> QueryResult<usize>;
}

// ---- inspect ----

/// One job, wherever it is now.
#[derive(Debug, Clone, QueryableByName)]
pub struct JobRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub queue: String,
    #[diesel(sql_type = Text)]
    pub kind: String,
    #[diesel(sql_type = Integer)]
    pub version: i32,
    #[diesel(sql_type = Text)]
    pub payload: String,
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = Integer)]
    pub priority: i32,
    /// Milliseconds since 1970.
    #[diesel(sql_type = BigInt)]
    pub run_at_ms: i64,
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = Integer)]
    pub max_attempts: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = Text)]
    pub idempotency_key: String,
    #[diesel(sql_type = Bool)]
    pub cancel_requested: bool,
    #[diesel(sql_type = BigInt)]
    pub created_at_ms: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub finished_at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    pub reason: Option<String>,
}

/// One failed attempt of a job.
#[derive(Debug, Clone, QueryableByName)]
pub struct ErrorRow {
    #[diesel(sql_type = Integer)]
    pub attempt: i32,
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    #[diesel(sql_type = BigInt)]
    pub at_ms: i64,
    #[diesel(sql_type = Text)]
    pub cause: String,
    #[diesel(sql_type = Text)]
    pub error: String,
}

/// How many jobs of one queue are in one state.
#[derive(Debug, Clone, QueryableByName)]
pub struct CountRow {
    #[diesel(sql_type = Text)]
    pub queue: String,
    /// `ready`, `scheduled`, `running`, `completed`, `discarded` or `cancelled`.
    #[diesel(sql_type = Text)]
    pub state: String,
    #[diesel(sql_type = BigInt)]
    pub jobs: i64,
}

pub trait InspectStatements {
    /// One job, wherever it is.
    fn job(&mut self, schema: &Schema, id: i64) -> QueryResult<Option<JobRow>>;

    /// Its failed attempts, oldest first.
    fn job_errors(&mut self, schema: &Schema, id: i64) -> QueryResult<Vec<ErrorRow>>;

    /// Jobs by queue and state.
    fn counts(&mut self, schema: &Schema) -> QueryResult<Vec<CountRow>>;

    /// Jobs of one kind that have not ended, oldest first.
    fn open_jobs(&mut self, schema: &Schema, kind: &str) -> QueryResult<Vec<JobRow>>;

    /// Moves the run time of a ready job (tests): milliseconds from now, negative for the past.
    fn move_run_at(&mut self, schema: &Schema, id: i64, after_ms: i64) -> QueryResult<usize>;

    /// Lets the lease of a running job expire now (tests).
    fn expire_lease(&mut self, schema: &Schema, id: i64) -> QueryResult<usize>;
}
