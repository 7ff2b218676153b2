//! The seam between the queue and a database: one small trait for each stage of a job's life, on Diesel's own
//! connection types.
//!
//! One method is one step that takes effect as a whole: on PostgreSQL one statement, but for the two that cancel; on
//! SQLite where needed a short transaction. The folders `postgres` and `sqlite` hold the statements, in files of the same
//! names, so that the two can be read side by side; the conformance tests hold them equal.

use diesel::backend::Backend as DieselBackend;
use diesel::connection::{AnsiTransactionManager, Connection, SimpleConnection};
use diesel::r2d2::{ConnectionManager, PooledConnection, R2D2Connection};

mod connect;
pub use connect::*;

mod hot_path;
pub use hot_path::*;

mod seam;
pub use seam::*;

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
    Connection<TransactionManager = AnsiTransactionManager, Backend: DieselBackend<QueryBuilder: Default> + Default>
    + SimpleConnection
    + R2D2Connection
    + Send
    + Sized
    + 'static
    + Connect
    + EnqueueStatements
    + AdmitStatements
    + KeyStatements
    + ClaimStatements
    + SelectedStatements
    + LeaseStatements
    + CommitStatements
    + ResultStatements
    + StepStatements
    + BatchStatements
    + WaitStatements
    + SettleStatements
    + SweepStatements
    + ExpiryStatements
    + PauseStatements
    + ScheduleStatements
    + FireStatements
    + OutboxStatements
    + RelayStatements
    + InboxStatements
    + WorkerStatements
    + InspectStatements
    + FigureStatements
    + HeldStatements
    + LifeStatements
    + SearchStatements
    + CheckStatements
    + CatalogueStatements
    + ManageStatements
    + ActionStatements
    + RowStatements
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
