//! The same statements as the library's, without the library and without Diesel: what is left to be gained.

use std::time::Duration;

use leasehold::__private::{Fence, Place};
use uuid::Uuid;

use crate::Answer;

#[cfg(feature = "postgres")]
mod libpq;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite3;

pub mod shapes;

/// A job without keys, limits or other options.
#[derive(Debug, Clone)]
pub struct Plain {
    /// Its queue.
    pub queue: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Of its payload.
    pub version: i32,
    /// JSON.
    pub payload: String,
    /// At the most.
    pub max_attempts: i32,
    /// Milliseconds.
    pub lease_ms: i64,
}

/// What a claim asks for.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    /// Jobs like this one.
    pub like: &'a Plain,
    /// Rows at the most.
    pub limit: i64,
    /// Fresh for each claim.
    pub lease_token: Uuid,
    /// Who claims.
    pub worker: Uuid,
    /// Behind which place to look.
    pub behind: Place,
}

/// What a claim took.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// The leases.
    pub fences: Vec<Fence>,
    /// The place of the last of them, where the backend's claims look behind one.
    pub last: Option<Place>,
}

/// What a connection is for: the library configures them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Claims and finishes.
    Control,
    /// Enqueues, and commits jobs with writes of its own.
    Application,
}

/// A connection that runs the statements.
pub trait Client: Sized + Send {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// The database's, as of all that follow.
    fn open(url: &str, purpose: Purpose) -> Answer<Self>;

    /// Enqueues in one statement.
    ///
    /// # Errors
    ///
    /// The database's.
    fn insert(&mut self, jobs: &[Plain]) -> Answer;

    /// Claims.
    ///
    /// # Errors
    ///
    /// The database's.
    fn claim(&mut self, claim: &Claim<'_>) -> Answer<Claimed>;

    /// Renews leases, and returns how many.
    ///
    /// # Errors
    ///
    /// The database's.
    fn heartbeat(&mut self, fences: &[Fence]) -> Answer<usize>;

    /// From now on [`Client::wait`] may be called.
    ///
    /// # Errors
    ///
    /// The database's.
    fn listen(&mut self) -> Answer;

    /// Waits until something may have been enqueued, `timeout` at the most.
    ///
    /// # Errors
    ///
    /// The database's.
    fn wait(&mut self, timeout: Duration) -> Answer;

    /// Completes, and returns how many.
    ///
    /// # Errors
    ///
    /// The database's.
    fn finish(&mut self, fences: &[Fence]) -> Answer<usize>;

    /// Inserts a row of the application's and completes the job, in one transaction; whether it was ours.
    ///
    /// # Errors
    ///
    /// The database's.
    fn commit(&mut self, fence: &Fence) -> Answer<bool>;
}
