//! A worker gets rows.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, SmallInt, Text};
use uuid::Uuid;

use super::CountedKind;
use crate::schema::Schema;

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
    /// Kinds whose starts are counted, if handlers begin at once.
    pub counted: &'a [CountedKind],
    /// Whether to take the oldest whatever their priority.
    pub oldest: bool,
    /// For each of `serves`, the place behind which to look; from the front where there is none. What takes the oldest
    /// looks from the front.
    pub behind: &'a [Place],
}

/// A job's place in the order in which jobs of one (queue, kind, version) are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The highest priority has the lowest.
    pub rank: i32,
    /// In the units of the database.
    pub run_at: i64,
    pub id: i64,
}

impl Place {
    /// Before every job.
    pub const FRONT: Self = Self {
        rank: i32::MIN,
        run_at: i64::MIN,
        id: i64::MIN,
    };
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
    #[diesel(sql_type = SmallInt)]
    pub priority: i16,
    /// In the units of the database: microseconds since 2000 on PostgreSQL, milliseconds since 1970 on SQLite.
    #[diesel(sql_type = BigInt)]
    pub run_at: i64,
    /// Milliseconds from its run time to the claim.
    #[diesel(sql_type = BigInt)]
    pub waited_ms: i64,
    /// Milliseconds from the claim until it is too late to run it.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub expires_in_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    pub limit_key: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    pub batch_id: Option<i64>,
    /// Whether other jobs may wait for its end.
    #[diesel(sql_type = Bool)]
    pub awaited: bool,
}

impl ClaimedRow {
    pub(crate) fn place(&self) -> Place {
        Place {
            rank: -i32::from(self.priority),
            run_at: self.run_at,
            id: self.id,
        }
    }
}

/// What waits in the queues that a program serves: a plain count, for the cold path only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, QueryableByName)]
pub struct Waiting {
    /// Ready, due and not paused.
    #[diesel(sql_type = BigInt)]
    pub ready: i64,
    /// Held by any worker.
    #[diesel(sql_type = BigInt)]
    pub running: i64,
    /// Ready, with a run time still to come.
    #[diesel(sql_type = BigInt)]
    pub scheduled: i64,
    /// Ready, and kept by a limit or by jobs that have to end first; counted by kind, whatever the queue.
    #[diesel(sql_type = BigInt)]
    pub blocked: i64,
    /// Ready, due and paused; and blocked, where every queue that is served of the kind is paused.
    #[diesel(sql_type = BigInt)]
    pub paused: i64,
    /// Milliseconds until the next scheduled one that is not paused is due; zero when it is due already.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub next_due_ms: Option<i64>,
}

pub trait ClaimStatements {
    /// Whether what was claimed leaves entries behind in the claim's index, which a claim from the front steps over.
    const LEAVES_DEAD_ENTRIES: bool;

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
