//! Connections, transactions, and what a server must be.

use std::time::Duration;

use diesel::ConnectionResult;
use diesel::result::QueryResult;

use crate::schema::Schema;
use crate::worker::Idle;

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

    /// Whether the next statement, also in the transaction that is open, sees what others have committed before it.
    fn sees_commits(&mut self) -> QueryResult<bool> {
        Ok(true)
    }

    /// Runs what may wait for a table's lock only for a moment: the heartbeat uses the same connection.
    fn briefly<T>(
        &mut self,
        settings: &ConnectionSettings,
        work: impl FnOnce(&mut Self) -> QueryResult<T>,
    ) -> QueryResult<T> {
        let _ = settings;
        work(self)
    }

    /// Begins a short transaction in which a row is read under its lock; waits one second for it at the most.
    fn begin_resolve(&mut self) -> QueryResult<()>;

    /// Runs reads that cannot write.
    fn read_only<T, E>(&mut self, reads: impl FnOnce(&mut Self) -> Result<T, E>) -> QueryResult<Result<T, E>>;

    /// What must be held while a transaction of this process writes to `url`: a fair gate on SQLite, nothing on
    /// PostgreSQL.
    fn write_gate(url: &str) -> WriteGate;

    /// Runs a short write on an application's connection in its turn among this process's writers; without its turn if that
    /// does not come soon, or where there are none.
    fn in_turn<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        work(self)
    }

    /// Starts a thread that tells when something was enqueued or cancelled, until its handle is told to stop. `None` where
    /// the backend has nothing to listen to.
    fn listen(
        url: &str,
        settings: &ConnectionSettings,
        schema: &Schema,
        wakes: Wakes,
    ) -> std::io::Result<Option<Listening>> {
        let _ = (url, settings, schema, wakes);
        Ok(None)
    }

    /// Waits until `wake` receives, `timeout` at the most. A backend without a listener also looks at the database, and
    /// returns when something was written: `seen` is what the last call on this connection left there, at first zero, so
    /// that nothing is missed between two calls; there the first one returns at once.
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

/// What a listener tells. A full channel means that whoever receives is about to look anyway.
#[derive(Debug, Clone)]
pub struct Wakes {
    /// Something was enqueued.
    pub enqueued: crossbeam_channel::Sender<()>,
    /// Running jobs were cancelled, or asked to stop.
    pub cancelled: crossbeam_channel::Sender<()>,
    /// Whether anybody waits to be told of jobs.
    pub idle: std::sync::Arc<Idle>,
    /// Whether anybody waits to be told of events.
    pub idle_relays: std::sync::Arc<Idle>,
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
    pub(crate) fn is_exclusive(&self) -> bool {
        #[cfg(feature = "sqlite")]
        return self.lock.is_some();
        #[cfg(not(feature = "sqlite"))]
        return false;
    }

    /// Whether this thread holds it: what it runs meanwhile would wait for itself.
    pub(crate) fn is_mine(&self) -> bool {
        #[cfg(feature = "sqlite")]
        return self.lock.as_ref().is_some_and(mine::has);
        #[cfg(not(feature = "sqlite"))]
        return false;
    }

    /// Runs `work` while holding the gate, in order of arrival; at once if this thread holds it already, so that the
    /// database says what is wrong, and nobody waits for ever.
    pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        #[cfg(feature = "sqlite")]
        let _held = match self.is_mine() {
            true => None,
            false => self.lock.as_ref().map(|lock| (lock.lock(), mine::note(lock))),
        };
        work()
    }
}

#[cfg(feature = "sqlite")]
impl WriteGate {
    /// As [`WriteGate::hold`], but without the gate if it is not to be had within `patience`: for whoever may keep the
    /// database from the one that holds the gate.
    pub(crate) fn hold_within<T>(&self, patience: Duration, work: impl FnOnce() -> T) -> T {
        let _held = match self.is_mine() {
            true => None,
            false => self
                .lock
                .as_ref()
                .and_then(|lock| Some((lock.try_lock_for(patience)?, mine::note(lock)))),
        };
        work()
    }
}

/// The gates that a thread holds. The mutex itself knows no owner.
#[cfg(feature = "sqlite")]
mod mine {
    use std::cell::RefCell;
    use std::sync::Arc;

    use parking_lot::FairMutex;

    thread_local! {
        static MINE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    fn address(lock: &Arc<FairMutex<()>>) -> usize {
        Arc::as_ptr(lock).addr()
    }

    pub(super) fn has(lock: &Arc<FairMutex<()>>) -> bool {
        MINE.with_borrow(|mine| mine.contains(&address(lock)))
    }

    /// Until what it returns is dropped.
    pub(super) fn note(lock: &Arc<FairMutex<()>>) -> Noted {
        MINE.with_borrow_mut(|mine| mine.push(address(lock)));
        Noted(address(lock))
    }

    pub(super) struct Noted(usize);

    impl Drop for Noted {
        fn drop(&mut self) {
            MINE.with_borrow_mut(|mine| mine.retain(|address| *address != self.0));
        }
    }
}
