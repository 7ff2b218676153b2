//! What the derive's output names, and what the project's own tests call. Not for anybody else.

pub use std::string::{String, ToString};

pub use serde::Serialize;
pub use serde::de::DeserializeOwned;
pub use serde_json::Value;

pub use crate::admit::admit_all;
#[cfg(feature = "postgres")]
pub use crate::backend::postgres::hot_path::hot_path as postgres_hot_path;
#[cfg(feature = "sqlite")]
pub use crate::backend::sqlite::hot_path::hot_path as sqlite_hot_path;
pub use crate::backend::*;
pub use crate::claim::{Found, claim, claim_selected};
use crate::lease::Refusal;
pub use crate::lease::{Fence, Verdict};
pub use crate::rows::table::{RowTable, TypeName};
pub use crate::rows::versioned::VersionTable;
pub use crate::worker::Idle;
#[cfg(feature = "postgres")]
pub use crate::worker::listener::listen;

/// The limits of a job type, as the statements take them.
#[must_use]
pub fn limit_of<J: crate::Job>() -> KindLimit {
    J::LIMIT.of_kind(J::KIND)
}

/// The fence of a handler's lease.
#[must_use]
pub fn fence_of<C: Backend>(lease: &crate::LeaseGuard<'_, C>) -> Fence {
    lease.fence()
}

/// What a row says about a fence that matched nothing; `None` when the job is still its worker's.
#[must_use]
pub fn refusal(fence: &Fence, row: Option<&Ownership>) -> Option<Refusal> {
    Refusal::of(fence, row)
}

/// A field of a unique key.
pub fn to_value<T: serde::Serialize + ?Sized>(field: &T) -> Value {
    // A field that does not serialize is refused with the whole payload, at enqueue.
    serde_json::to_value(field).unwrap_or_default()
}

/// An idempotency key from named fields: short enough for every outside system, and of this kind alone.
#[must_use]
pub fn idempotency_key(kind: &str, fields: &[(&str, Value)]) -> String {
    crate::enqueue::derived_key(kind, &unique_key(fields))
}

/// A unique key from named fields: their JSON, so that no two sets of values have the same text.
#[must_use]
pub fn unique_key(fields: &[(&str, Value)]) -> String {
    Value::Array(
        fields
            .iter()
            .map(|(name, value)| serde_json::json!([name, value]))
            .collect(),
    )
    .to_string()
}

/// An error text as it is stored.
#[must_use]
pub fn storable(text: &str) -> String {
    crate::settle::storable(text)
}

/// Whether a JSON text can be stored and read back.
#[must_use]
pub fn is_storable_json(json: &str) -> bool {
    crate::enqueue::check_json(json).is_ok()
}

/// A stored payload as the worker reads it.
///
/// # Errors
///
/// The one that discards the job.
pub fn decode<J: crate::Job>(version: i32, payload: &str) -> Result<J, crate::JobError> {
    crate::registry::decode(version, payload)
}

/// The last fire time until `ms`, and the first one after it, in milliseconds since 1970.
///
/// # Errors
///
/// For a text or a zone that says nothing.
#[cfg(feature = "schedules")]
pub fn fire_times(
    cron: &str,
    zone: &str,
    ms: i64,
) -> Result<(Option<i64>, Option<i64>), crate::schedule::ScheduleError> {
    let times = crate::schedule::Times::new(cron, zone)?;
    Ok((times.until(ms), times.after(ms)))
}

/// Fires every schedule that is due, as a worker does: schedule, fire time and job of each.
///
/// # Errors
///
/// The database's.
#[cfg(feature = "schedules")]
pub fn fire_schedules<C: Backend>(
    conn: &mut C,
    schema: &crate::Schema,
) -> diesel::QueryResult<Vec<(String, std::time::SystemTime, i64)>> {
    let mut all = Vec::new();
    let mut after = crate::schedule::ScheduleRevision::default();
    loop {
        let before = after.clone();
        let batch = crate::schedule::fire_batch(conn, schema, &mut after, 2)?;
        let fired = batch.fired.iter().map(crate::schedule::Fired::info);
        all.extend(fired.map(|fire| (fire.schedule.to_owned(), fire.fire_at, fire.job)));
        if after == before {
            return Ok(all);
        }
    }
}
