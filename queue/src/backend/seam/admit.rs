//! Limits let jobs through.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::lease::Fence;
use crate::schema::Schema;

/// The limits of a kind, as this program states them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindLimit {
    pub kind: String,
    /// So many admitted at a time; `None`: any number.
    pub max: Option<i64>,
    /// One at a time, in the order of enqueue: one that failed keeps its turn.
    pub serial: bool,
    pub rate: Option<Rate>,
}

/// At most so many starts within any time of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub max: i64,
    pub per_ms: i64,
}

/// Which keys a look is for.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// The first so many with blocked jobs that follow on a key.
    After(&'a str, i64),
    /// These, as far as they have blocked jobs.
    These(&'a [String]),
}

/// A key with blocked jobs.
#[derive(Debug, Clone, QueryableByName)]
pub struct Room {
    #[diesel(sql_type = Text)]
    pub limit_key: String,
    /// How many of its jobs may be admitted; zero or below: none.
    #[diesel(sql_type = BigInt)]
    pub room: i64,
    /// The job whose turn it is, where that is not the first in order.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub turn: Option<i64>,
    /// Milliseconds until a start leaves the rate's period.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub next_ms: Option<i64>,
}

/// A kind whose starts are counted for its rate, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedKind {
    pub kind: String,
    pub per_ms: i64,
}

pub trait AdmitStatements {
    /// Those of `kinds` that have jobs which wait for a limit, unless they are paused.
    fn blocked_kinds(&mut self, schema: &Schema, kinds: &[&str]) -> QueryResult<Vec<String>>;

    /// Makes this transaction the only one that admits, until it ends; false when another one does.
    fn try_lock_admission(&mut self, schema: &Schema) -> QueryResult<bool>;

    /// How much room there is for each of the keys. Under the admission's lock room only grows.
    fn room(&mut self, schema: &Schema, limit: &KindLimit, keys: Keys<'_>) -> QueryResult<Vec<Room>>;

    /// Admits as many jobs of each key as there is room, the first in order; returns how many. Locked rows are left out,
    /// and nothing takes their place.
    fn admit(&mut self, schema: &Schema, kind: &str, rooms: &[Room]) -> QueryResult<usize>;

    /// Wakes listeners.
    fn tell_admitted(&mut self, schema: &Schema) -> QueryResult<()>;

    /// As [`LeaseStatements::begin`](crate::backend::LeaseStatements::begin), and counts the starts of `counted` kinds.
    fn begin_counted(&mut self, schema: &Schema, fences: &[Fence], counted: &[CountedKind]) -> QueryResult<Vec<i64>>;

    /// Removes starts that no rate looks at any more, `limit` at the most.
    fn sweep_starts(&mut self, schema: &Schema, limit: i64) -> QueryResult<usize>;
}
