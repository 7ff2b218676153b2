//! The same deed for many jobs.

use std::time::{Duration, Instant};

use leasehold::manage::{self, RequeueError};
use leasehold::{Backend, Schema};

use super::{Done, NotDone, how};
use crate::request::{Pairs, query};
use crate::route::ManyDeed;
use crate::search;

/// Jobs that are acted on by one form.
pub(crate) const MOST_AT_ONCE: usize = 500;
/// Whoever acts on many jobs would rather be told how far it went.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is done, and to which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Many {
    deed: ManyDeed,
    /// In their order, as whatever locks many of them takes them.
    ids: Vec<i64>,
    hard: bool,
    reason: String,
    /// The query of the list that they were chosen from.
    list: String,
}

impl Many {
    pub(super) fn read(deed: ManyDeed, form: &Pairs, reason: String) -> Option<Self> {
        Some(Self {
            deed,
            ids: ids(form.get("ids")?)?,
            hard: form.get("how") == Some("hard"),
            reason,
            list: query(&search::fields(form)),
        })
    }

    /// The list that they were chosen from, with how far it went.
    pub(super) fn shown_at(&self, done: Done) -> String {
        let (deed, done, of) = (self.deed.as_str(), done.0, self.ids.len());
        format!("/jobs?{}&deed={deed}&done={done}&of={of}", self.list)
    }

    /// One after the other, each in a transaction of its own. A job that has moved on meanwhile is left as it is.
    pub(super) fn run<C: Backend>(&self, conn: &mut C, schema: &Schema, who: &str) -> Result<Done, NotDone> {
        let since = Instant::now();
        let mut done = 0;
        for id in self.ids.iter().take_while(|_| since.elapsed() < PATIENCE) {
            let acted = match self.deed {
                ManyDeed::Requeue => match manage::requeue(conn, schema, *id, who) {
                    Ok(()) => true,
                    Err(RequeueError::Database(error)) => return Err(error.into()),
                    Err(_) => false,
                },
                ManyDeed::Cancel => manage::cancel(conn, schema, *id, how(self.hard), who, &self.reason)?,
                ManyDeed::Discard => manage::discard(conn, schema, *id, who, &self.reason)?,
            };
            done += u64::from(acted);
        }
        Ok(Done(done))
    }
}

/// Ids with commas between them.
fn ids(text: &str) -> Option<Vec<i64>> {
    let ids: Result<Vec<i64>, _> = text.split(',').map(str::parse).collect();
    let mut ids = ids.ok().filter(|ids| ids.len() <= MOST_AT_ONCE)?;
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}
