//! A worker keeps rows.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool};

use crate::lease::Fence;
use crate::schema::Schema;

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
