//! What must hold, whatever the statement says.

mod batches;
mod claims;
mod commits;
mod fences;
mod leases;

pub(crate) use batches::{a_limit_is_exact, rows_are_locked_in_the_order_of_their_ids};
pub(crate) use claims::{
    a_claim_has_a_generation_of_its_own, a_claim_that_a_crash_forgot_cannot_commit, a_requeue_keeps_the_generation,
};
pub(crate) use commits::{
    Driven, RIGHTLY, a_commit_that_is_told_is_done, a_doubt_ends_under_the_lock, a_refused_commit_leaves_nothing,
    a_resolve_blocks_no_reference, a_strict_commit_is_judged_after_its_wait,
};
pub(crate) use fences::{
    a_row_at_another_generation_is_left_alone, a_row_that_is_not_running_is_left_alone,
    a_row_with_another_token_is_left_alone,
};
pub(crate) use leases::{
    a_heartbeat_counts_from_now, a_lease_that_stands_is_not_swept, another_ones_lease_is_not_extended,
};
