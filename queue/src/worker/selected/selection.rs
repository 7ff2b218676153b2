//! What a program asks for.

use std::collections::HashSet;
use std::fmt;

use super::ClaimError;
use crate::enqueue::{stored_idempotency_key, stored_unique_key};
use crate::job::Job;

/// Jobs by their ids, their idempotency keys or their unique keys.
///
/// ```
/// # include!("../../doctest_setup.rs");
/// # #[derive(serde::Serialize, serde::Deserialize, Job)]
/// # #[job(kind = "write-article", unique(by = "issue"))]
/// # struct WriteArticle { issue: i64 }
/// use leasehold::selected::Selection;
///
/// # fn main() {
/// let by_ids = Selection::from([4, 2, 3]);
/// let by_keys = Selection::idempotency_keys(["order-17", "order-18"]);
/// let by_payloads = Selection::jobs(&[WriteArticle { issue: 7 }, WriteArticle { issue: 8 }]);
/// # let _ = (by_ids, by_keys, by_payloads);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Selection {
    asked: Vec<Asked>,
    /// As `unique_keys` has them; empty for ids.
    stored: Vec<String>,
    /// A kind whose jobs have no unique key.
    without_key: Option<&'static str>,
}

/// One thing that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// The job with this id.
    Id(i64),
    /// The job that was enqueued with this idempotency key.
    IdempotencyKey(String),
    /// The job that has this unique key, as [`Job::unique_key`] gives it.
    UniqueKey {
        /// The job's kind.
        kind: &'static str,
        /// The key.
        key: String,
    },
}

impl Selection {
    /// How many distinct things one call may ask for: 1,000. It is one statement, whose rows are locked until it commits.
    pub const MOST: usize = 1000;

    /// Jobs by their ids.
    pub fn ids(ids: impl IntoIterator<Item = i64>) -> Self {
        Self::new(ids.into_iter().map(Asked::Id).collect(), Vec::new())
    }

    /// Jobs by the idempotency keys that they were given when they were enqueued. A key that is not remembered any more
    /// names nothing.
    pub fn idempotency_keys<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        let keys: Vec<String> = keys.into_iter().map(Into::into).collect();
        let stored = keys.iter().map(|key| stored_idempotency_key(key)).collect();
        Self::new(keys.into_iter().map(Asked::IdempotencyKey).collect(), stored)
    }

    /// The jobs that have the unique keys of these, in the kind's own queue if the key is one of the queue's. What else
    /// these payloads hold does not matter, and none of them is enqueued.
    pub fn jobs<J: Job>(jobs: &[J]) -> Self {
        Self::jobs_in(J::QUEUE, jobs)
    }

    /// As [`Selection::jobs`], for a kind with a key in each queue.
    pub fn jobs_in<J: Job>(queue: &str, jobs: &[J]) -> Self {
        let queue = J::UNIQUE.is_per_queue().then_some(queue);
        let keys: Vec<String> = jobs.iter().filter_map(Job::unique_key).collect();
        let stored = keys.iter().map(|key| stored_unique_key(J::KIND, queue, key)).collect();
        let has_all = keys.len() == jobs.len();
        let asked = keys.into_iter().map(|key| Asked::UniqueKey { kind: J::KIND, key });
        Self {
            without_key: (!has_all).then_some(J::KIND),
            ..Self::new(asked.collect(), stored)
        }
    }

    fn new(asked: Vec<Asked>, stored: Vec<String>) -> Self {
        Self {
            asked,
            stored,
            without_key: None,
        }
    }

    /// Each thing once, where it was named first.
    pub(super) fn distinct(self) -> Result<Distinct, ClaimError> {
        if let Some(kind) = self.without_key {
            return Err(ClaimError::NoUniqueKey { kind });
        }
        let mut distinct = Distinct::default();
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        let mut stored = self.stored.into_iter();
        for asked in self.asked {
            let is_new = match (&asked, stored.next()) {
                (Asked::Id(id), _) => {
                    ids.insert(*id) && {
                        distinct.ids.push(*id);
                        true
                    }
                }
                (_, Some(key)) => {
                    keys.insert(key.clone()) && {
                        distinct.keys.push(key);
                        true
                    }
                }
                (_, None) => false,
            };
            if is_new {
                distinct.asked.push(asked);
            }
        }
        match distinct.asked.len() {
            asked if asked > Self::MOST => Err(ClaimError::TooMany { asked }),
            _ => Ok(distinct),
        }
    }
}

/// What is asked for, each thing once, with the id or the stored key of each.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    pub(super) asked: Vec<Asked>,
    pub(super) ids: Vec<i64>,
    pub(super) keys: Vec<String>,
}

impl<const N: usize> From<[i64; N]> for Selection {
    fn from(ids: [i64; N]) -> Self {
        Self::ids(ids)
    }
}

impl From<&[i64]> for Selection {
    fn from(ids: &[i64]) -> Self {
        Self::ids(ids.iter().copied())
    }
}

impl From<&Vec<i64>> for Selection {
    fn from(ids: &Vec<i64>) -> Self {
        Self::from(ids.as_slice())
    }
}

impl From<Vec<i64>> for Selection {
    fn from(ids: Vec<i64>) -> Self {
        Self::ids(ids)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "job {id}"),
            Self::IdempotencyKey(key) => write!(f, "the job with the idempotency key {key:?}"),
            Self::UniqueKey { kind, key } => write!(f, "the {kind} with the unique key {key:?}"),
        }
    }
}
