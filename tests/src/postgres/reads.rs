//! What others read of the queue's tables.

use std::time::Duration;

use super::Database;
use crate::{TestDb, eventually};

/// A session that has ended is gone at once; on a busy machine a little later.
const SOON: Duration = Duration::from_secs(60);

/// What was read of the queue's tables and indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// Rows that a scan of a table returned, and entries that a scan of an index did. A row that is found by an index and
    /// fetched counts once.
    pub rows: i64,
    /// Pages that were asked for. A scan that skips entries within an index returns no row and asks for pages.
    pub pages: i64,
}

impl Database {
    /// What `work` reads by sessions that it opens and closes. Others read nothing meanwhile, so tables that are full go
    /// without autovacuum.
    #[track_caller]
    pub fn reads_of(&mut self, work: impl FnOnce(&Self)) -> Reads {
        let before = self.reads();
        work(self);
        let mut after = self.reads();
        // Before version 15 the server hears of it a moment after the session has ended. No look reads nothing.
        eventually(SOON, "what was read is counted", || {
            after = self.reads();
            after != before
        });
        Reads {
            rows: after.rows - before.rows,
            pages: after.pages - before.pages,
        }
    }

    /// Since the database was made.
    #[track_caller]
    fn reads(&mut self) -> Reads {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'";
        eventually(SOON, "the other sessions have ended", || self.integer(others) == 0);
        let mut sum = |counter: &str| {
            self.integer(&format!(
                "SELECT sum({counter}(oid)) FROM pg_class WHERE relnamespace = 'leasehold'::regnamespace"
            ))
        };
        Reads {
            rows: sum("pg_stat_get_tuples_returned"),
            pages: sum("pg_stat_get_blocks_fetched"),
        }
    }
}
