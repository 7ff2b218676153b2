use super::{claim, commit, connect, enqueue, lease, settle};
use crate::backend::{ConnectionSettings, HotPath};

/// The texts that a worker without limits or rates runs.
#[must_use]
pub fn hot_path() -> HotPath {
    HotPath {
        session: connect::CONTROL,
        listen: format!(
            "LISTEN leasehold; SELECT pg_catalog.pg_advisory_lock_shared({}, pg_catalog.hashtext('leasehold'))",
            super::IDLE
        ),
        insert: enqueue::INSERT,
        insert_one: Some(enqueue::INSERT_ONE),
        candidates: None,
        claim: claim::CLAIM,
        heartbeat: lease::HEARTBEAT,
        finish: vec![settle::FINISH],
        begin_commit: connect::begin_commit(None, &ConnectionSettings::default()),
        unmark: None,
        complete: vec![commit::COMPLETE],
    }
}
