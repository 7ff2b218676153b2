//! What else becomes of a row that was claimed.

use diesel::result::QueryResult;

use crate::lease::Fence;
use crate::schema::Schema;

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

    /// Puts one back to `ready`; 1 row if it was ours, else 0. One that was asked to stop is not put back after an attempt
    /// that counts: 0 as well.
    fn put_back(&mut self, schema: &Schema, fence: &Fence, how: &PutBack) -> QueryResult<usize>;

    /// Ends one as discarded or cancelled; 1 row if it was ours, else 0.
    fn end(&mut self, schema: &Schema, fence: &Fence, how: &End) -> QueryResult<usize>;

    /// Puts back leases on which no handler has begun, as the caller knows, attempt given back; returns the ids that were
    /// ours.
    fn release(&mut self, schema: &Schema, fences: &[Fence]) -> QueryResult<Vec<i64>>;
}
