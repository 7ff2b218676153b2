//! Jobs by state, as far as they were counted.

use leasehold::inspect::Count;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// In the order of a job's life. These names are what programs read: add to them, change none.
const NAMES: [&str; 7] = [
    "ready",
    "scheduled",
    "blocked",
    "running",
    "completed",
    "discarded",
    "cancelled",
];

/// The same for people.
pub(super) const HEAD: [&str; 7] = [
    "READY",
    "SCHEDULED",
    "BLOCKED",
    "RUNNING",
    "COMPLETED",
    "DISCARDED",
    "CANCELLED",
];

/// How many jobs are in which state: `ready`, `scheduled` and so on.
#[derive(Default, Clone, Copy)]
pub(super) struct Figures(pub(super) [Count; 7]);

impl Figures {
    pub(super) fn texts(&self) -> [String; 7] {
        self.0.map(|count| count.to_string())
    }
}

impl Serialize for Figures {
    /// The numbers, and `more` with the names of those that counting ended early.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = || NAMES.into_iter().zip(self.0);
        let mut map = serializer.serialize_map(Some(NAMES.len() + 1))?;
        for (name, count) in named() {
            map.serialize_entry(name, &count.rows)?;
        }
        let more: Vec<&str> = named().filter(|(_, count)| count.more).map(|(name, _)| name).collect();
        map.serialize_entry("more", &more)?;
        map.end()
    }
}

/// All that there are.
pub(super) fn exactly(rows: u64) -> Count {
    let mut count = Count::default();
    count.rows = rows;
    count
}
