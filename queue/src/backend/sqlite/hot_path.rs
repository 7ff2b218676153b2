//! The texts that a worker without limits or rates runs.

use super::{claim, commit, connect, enqueue, lease, settle};
use crate::backend::HotPath;

/// The texts that a worker without limits or rates runs.
#[must_use]
pub fn hot_path() -> HotPath {
    let complete = vec![settle::COPY_TO_FINISHED, settle::DELETE_FINISHED];
    HotPath {
        session: connect::SESSION,
        listen: String::new(),
        insert: enqueue::INSERT,
        insert_one: None,
        candidates: Some(claim::CANDIDATES),
        claim: claim::CLAIM,
        heartbeat: lease::HEARTBEAT,
        finish: complete.clone(),
        begin_commit: connect::BEGIN_COMMIT.to_owned(),
        unmark: Some(commit::UNMARK),
        complete,
    }
}
