//! Looking for jobs: a bounded stretch of them, and those of it that match.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable};

use super::{Matching, SummaryRow};
use crate::schema::Schema;

/// A job's place in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, QueryableByName)]
pub struct PlaceRow {
    /// When it ended, as the database counts time; in a stretch of ended jobs alone.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub at: Option<i64>,
    #[diesel(sql_type = BigInt)]
    pub id: i64,
}

impl PlaceRow {
    /// After every job.
    pub const END: Self = Self { at: None, id: i64::MAX };
}

/// Of which jobs a stretch is.
#[derive(Debug, Clone, Copy)]
pub enum Stretch {
    /// All, the newest first.
    All,
    /// Those that have not ended, the newest first.
    Open,
    /// Running ones, the newest first.
    Held,
    /// Those that ended in this state, the one that ended last first.
    Ended(&'static str),
    /// Those of a batch, the newest first: of one state, `ready` being all that have not ended, or of any.
    Batch(i64, Option<&'static str>),
}

pub trait SearchStatements {
    /// The jobs of a stretch that come before a place, in their order, `limit` at the most.
    fn stretch(&mut self, schema: &Schema, of: Stretch, before: PlaceRow, limit: i64) -> QueryResult<Vec<PlaceRow>>;

    /// Those of `ids` that match, in any order.
    fn matching(&mut self, schema: &Schema, matching: &Matching, ids: &[i64]) -> QueryResult<Vec<SummaryRow>>;
}
