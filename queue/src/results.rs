//! Results: what a completed job gives back to those who asked for it.

use serde::Serialize;

use crate::enqueue::{MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH, Unstorable, check_json};

/// Why a result was not stored; the attempt has failed, and nothing of its commit was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The result does not serialize.
    #[error("the result does not serialize: {0}")]
    Serialize(#[source] serde_json::Error),
    /// The result is larger than [`EnqueueOptions::MAX_PAYLOAD_BYTES`](crate::EnqueueOptions::MAX_PAYLOAD_BYTES).
    #[error(
        "the result has {bytes} bytes, more than {MAX_PAYLOAD_BYTES}: store it elsewhere and give back where it is"
    )]
    TooLarge {
        /// Its length as JSON.
        bytes: usize,
    },
    /// The result nests deeper than [`EnqueueOptions::MAX_PAYLOAD_DEPTH`](crate::EnqueueOptions::MAX_PAYLOAD_DEPTH).
    #[error("the result nests deeper than {MAX_PAYLOAD_DEPTH} levels, which nobody could decode: flatten it")]
    TooDeep,
    /// The result has a NUL character in a text, which PostgreSQL cannot read back.
    #[error("the result has a NUL character in a text: remove it, or encode the bytes (base64, hex)")]
    Nul,
}

/// A result as it is stored: JSON that was checked.
#[derive(Debug)]
pub(crate) struct StoredResult(String);

impl StoredResult {
    pub(crate) fn new(value: &impl Serialize) -> Result<Self, ResultError> {
        let json = serde_json::to_string(value).map_err(ResultError::Serialize)?;
        match check_json(&json) {
            Ok(()) => Ok(Self(json)),
            Err(Unstorable::TooLarge { bytes }) => Err(ResultError::TooLarge { bytes }),
            Err(Unstorable::TooDeep) => Err(ResultError::TooDeep),
            Err(Unstorable::Nul) => Err(ResultError::Nul),
        }
    }

    pub(crate) fn json(&self) -> &str {
        &self.0
    }
}
