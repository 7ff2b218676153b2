//! Counts that end somewhere.

use std::fmt;

/// How many rows, counted up to a bound: `10000+` when counting ended there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Count {
    /// How many were counted.
    pub rows: u64,
    /// Whether there may be more.
    pub more: bool,
}

impl Count {
    /// What a count gave that ended at `at_most`.
    pub(crate) fn bounded(rows: i64, at_most: i64) -> Self {
        Self {
            rows: rows.unsigned_abs(),
            more: rows >= at_most,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rows, if self.more { "+" } else { "" })
    }
}
