//! What the derive's output names, and what the project's own tests call. Not for anybody else.

pub use std::string::{String, ToString};

pub use serde::Serialize;
pub use serde::de::DeserializeOwned;
pub use serde_json::Value;

pub use crate::admit::admit_all;
pub use crate::backend::*;
pub use crate::claim::{Found, claim};
pub use crate::lease::Fence;
#[cfg(feature = "postgres")]
pub use crate::worker::listener::listen;

/// The limits of a job type, as the statements take them.
#[must_use]
pub fn limit_of<J: crate::Job>() -> KindLimit {
    J::LIMIT.of_kind(J::KIND)
}

/// A field of a unique key.
pub fn to_value<T: serde::Serialize + ?Sized>(field: &T) -> Value {
    // A field that does not serialize is refused with the whole payload, at enqueue.
    serde_json::to_value(field).unwrap_or_default()
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
