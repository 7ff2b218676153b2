//! How a write that meets another fence is refused.

use crate::backend::{RowFence, RowOwnership};
use crate::rows::RowTable;

/// Why the database did not accept a write of a row's owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowRefusal {
    /// The lease ran out, and somebody else has claimed the row since.
    #[error("the lease was lost: the row is at generation {generation} now")]
    Lost {
        /// The row's generation now.
        generation: i64,
    },
    /// The lease is no longer trusted here: it could not be renewed in time, by this process's own clock.
    #[error("the lease ran out before it could be renewed")]
    Expired,
    /// The row is gone.
    #[error("the row does not exist any more")]
    Missing,
    /// The row does not run any more.
    #[error("the row has ended already: it is {status}")]
    AlreadyFinished {
        /// Its status.
        status: String,
    },
    /// The row is at a lower generation than this lease, or at the same one with another token: the database forgot a
    /// commit that it had acknowledged, or somebody wrote the columns of the lease by hand.
    #[error("the database lost a commit that it had acknowledged: the row is at generation {generation} again")]
    DurabilityLoss {
        /// The row's generation now.
        generation: i64,
    },
}

impl RowRefusal {
    /// What a row says about a fence that matched nothing; `None` when it is running under that very fence.
    pub(crate) fn of(table: &RowTable, fence: &RowFence, row: Option<&RowOwnership>) -> Option<Self> {
        let Some(row) = row else { return Some(Self::Missing) };
        let generation = row.generation;
        if generation < fence.generation || (generation == fence.generation && !has_token_of(row, fence)) {
            return Some(Self::DurabilityLoss { generation });
        }
        if row.status == table.running {
            return (generation > fence.generation).then_some(Self::Lost { generation });
        }
        if generation > fence.generation && table.ready.contains(&row.status.as_str()) {
            return Some(Self::Lost { generation });
        }
        Some(Self::AlreadyFinished {
            status: row.status.clone(),
        })
    }
}

/// Whether the row's last lease was this one.
pub(crate) fn is_of(row: &RowOwnership, fence: &RowFence) -> bool {
    row.generation == fence.generation && has_token_of(row, fence)
}

fn has_token_of(row: &RowOwnership, fence: &RowFence) -> bool {
    row.lease_token.as_deref().and_then(|token| token.parse().ok()) == Some(fence.lease_token)
}
