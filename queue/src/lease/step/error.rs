//! Why a step gave no result.

use diesel::result::Error;

use crate::name::NameError;
use crate::results::ResultError;

/// Why a step of a handler gave no result, and whether its effect has happened.
///
/// It is found behind the [`JobError`](crate::JobError) by [`downcast_ref`](crate::JobError::downcast_ref). The attempt has
/// failed, and the next one may do better: under a program that was repaired meanwhile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The name cannot be used: 1 to 128 bytes without control characters.
    #[error("a step's name: {0}")]
    Name(#[source] NameError),
    /// The name has a slash. It would let two steps of different jobs have one key.
    #[error("the step's name `{step}` has a slash, which ends the job's own key in the step's: use another character")]
    Slash {
        /// The name.
        step: String,
    },
    /// The name has been asked for before in this execution, and answered.
    #[error("the step `{step}` was asked for before in this execution: give each its own name, such as with a counter")]
    Repeated {
        /// The name.
        step: String,
    },
    /// At this place another step is recorded, which this execution has not asked for. The effect was not called.
    #[error(
        "recorded as `{recorded}`, asked for as `{asked}`: keep the name and the order of steps while jobs have records of them, \
         or look at `recorded_steps` first"
    )]
    Renamed {
        /// The name in the record.
        recorded: String,
        /// The name that was asked for.
        asked: String,
    },
    /// The recorded result is not of the type that was asked for. The effect was not called.
    #[error(
        "the result recorded of step `{step}` is no `{type_name}`: {source}; keep the type, or make it read the old form"
    )]
    Decode {
        /// The step.
        step: String,
        /// The type that was asked for.
        type_name: &'static str,
        /// The decoder's error.
        source: serde_json::Error,
    },
    /// The effect has happened, and its result cannot be stored: the next attempt calls it again, with the same key.
    #[error("the effect of step `{step}` has happened and is not recorded: {source}")]
    Unstorable {
        /// The step.
        step: String,
        /// What is wrong with the result.
        source: ResultError,
    },
    /// The effect has happened, and its result does not read back as the same type: the next attempt calls it again, with
    /// the same key.
    #[error(
        "the effect of step `{step}` has happened and is not recorded: its result does not read back as `{type_name}`: {source}"
    )]
    Unreadable {
        /// The step.
        step: String,
        /// The result's type.
        type_name: &'static str,
        /// The decoder's error.
        source: serde_json::Error,
    },
    /// The effect has happened, and the database refused the record: the next attempt calls it again, with the same key.
    #[error("the effect of step `{step}` has happened and is not recorded: {source}")]
    Unrecorded {
        /// The step.
        step: String,
        /// The database's error.
        source: Error,
    },
}
