//! Which jobs a list shows, and how they are found: by looking at a bounded number of them.

use std::borrow::Cow;
use std::time::Duration;

use diesel::result::QueryResult;
use leasehold::inspect::{self, Count, Filter, JobSummary, Place, State};
use leasehold::{Backend, Schema};
use serde_json::{Value, json};

use crate::request::{Pairs, Unreadable};
use crate::texts;

/// Jobs that are counted: behind that the list says "more than".
const COUNTED: usize = 1000;
/// Ready jobs that are read first where only some of them are meant; then as many as are looked at for one answer.
const AT_FIRST: u32 = 1000;
/// Jobs that are looked at for one answer.
const LOOKED_AT: u64 = 10_000;

/// The states that people tell apart: a ready job is due, or kept by time, or by something else.
pub(crate) const STATES: [&str; 7] = [
    texts::READY,
    texts::SCHEDULED,
    texts::BLOCKED,
    texts::RUNNING,
    texts::COMPLETED,
    texts::DISCARDED,
    texts::CANCELLED,
];

/// The fields of a query that say which jobs are meant.
const FIELDS: [&str; 6] = ["state", "queue", "kind", "error", "age", "batch"];

/// Which jobs are meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    filter: Filter,
    of_batch: bool,
    /// One of [`STATES`].
    pub(crate) state: Option<&'static str>,
    /// Where the page begins.
    pub(crate) from: Option<Place>,
}

/// Jobs that were found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) jobs: Vec<JobSummary>,
    /// Where to look on; there may be more.
    pub(crate) next: Option<Place>,
    /// How many jobs were looked at.
    pub(crate) looked: u64,
}

/// A key by which one job is looked for.
#[derive(Debug)]
pub(crate) enum Key<'q> {
    Idempotency(&'q str),
    Unique {
        kind: &'q str,
        queue: Option<&'q str>,
        /// The texts that may be meant.
        texts: Vec<String>,
    },
}

impl<'q> Key<'q> {
    /// What a query names. A unique key is of a kind, and of a queue if each has its own.
    pub(crate) fn read(query: &'q Pairs) -> Option<Self> {
        if let Some(key) = query.name("key") {
            return Some(Self::Idempotency(key));
        }
        Some(Self::Unique {
            texts: unique_texts(query.name("unique")?),
            kind: query.name("kind").unwrap_or_default(),
            queue: query.name("queue"),
        })
    }

    /// The job that has it.
    pub(crate) fn holder<C: Backend>(&self, conn: &mut C, schema: &Schema) -> QueryResult<Option<i64>> {
        match self {
            Self::Idempotency(key) => inspect::by_idempotency_key(conn, schema, key),
            Self::Unique { kind, queue, texts } => {
                let queues = [None, *queue];
                let of_queue = if queue.is_some() { &queues[..] } else { &queues[..1] };
                for text in texts {
                    for queue in of_queue {
                        let found = inspect::by_unique_key(conn, schema, kind, *queue, text)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                }
                Ok(None)
            }
        }
    }
}

/// A key as it is written, and for `field=value` as the derive writes it: the value a number and the like, or a text.
fn unique_texts(key: &str) -> Vec<String> {
    let mut texts = vec![key.to_owned()];
    if let Some((field, value)) = key.split_once('=') {
        let as_json: Option<Value> = serde_json::from_str(value).ok();
        texts.extend(as_json.map(|value| json!([[field, value]]).to_string()));
        texts.push(json!([[field, value]]).to_string());
    }
    texts
}

impl Wanted {
    /// What a query asks for. What it says of a field and is none is refused: a list of everything would be taken for what
    /// was asked for, and acted on.
    pub(crate) fn read(query: &Pairs) -> Result<Self, Unreadable> {
        let state = match query.get("state") {
            None => None,
            Some(name) => Some(STATES.into_iter().find(|state| *state == name).ok_or(Unreadable)?),
        };
        let mut filter = Filter::new();
        if let Some(state) = state {
            filter = filter.state(stored(state));
        }
        if let Some(queue) = query.name("queue") {
            filter = filter.queue(queue);
        }
        if let Some(kind) = query.name("kind") {
            filter = filter.kind(kind);
        }
        let batch = query.number("batch")?;
        if let Some(batch) = batch {
            filter = filter.batch(batch);
        }
        if let Some(text) = query.get("error") {
            filter = filter.error(text);
        }
        if let Some(age) = query.get("age") {
            let (.., seconds) = texts::AGES.iter().find(|(name, ..)| *name == age).ok_or(Unreadable)?;
            filter = filter.older_than(Duration::from_secs(*seconds));
        }
        let from = query.get("from").map(str::parse).transpose();
        let from = from.map_err(|_| Unreadable)?;
        Ok(Self {
            filter,
            of_batch: batch.is_some(),
            state,
            from,
        })
    }

    /// Whether the summary is of the state that was asked for, which the filter knows only in part.
    fn is(&self, job: &JobSummary) -> bool {
        self.state.is_none_or(|state| standing(job) == state)
    }

    /// Whether the filter alone finds what is meant.
    fn is_whole(&self) -> bool {
        self.state.is_none_or(|state| stored(state) != State::Ready)
    }

    /// The next `limit` jobs from the place on.
    pub(crate) fn find<C: Backend>(&self, conn: &mut C, schema: &Schema, limit: usize) -> QueryResult<Found> {
        let mut at_once = match self.is_whole() {
            true => u32::try_from(limit).unwrap_or(u32::MAX),
            false => AT_FIRST,
        };
        let mut found = Found {
            next: self.from,
            ..Found::default()
        };
        loop {
            let page = inspect::search(conn, schema, &self.filter, found.next, at_once)?;
            found.looked += page.looked;
            found.next = page.next;
            let read = page.jobs.len();
            for (at, job) in page.jobs.into_iter().enumerate().filter(|(_, job)| self.is(job)) {
                found.jobs.push(job);
                if found.jobs.len() == limit {
                    if at + 1 < read {
                        found.next = found.jobs.last().and_then(place);
                    }
                    return Ok(found);
                }
            }
            let left = LOOKED_AT.saturating_sub(found.looked);
            if found.next.is_none() || left == 0 {
                return Ok(found);
            }
            at_once = u32::try_from(left).unwrap_or(u32::MAX);
        }
    }

    /// The first `limit` jobs, and how many there are, as far as they are counted.
    pub(crate) fn first<C: Backend>(&self, conn: &mut C, schema: &Schema, limit: usize) -> QueryResult<(Found, Count)> {
        let counted = |all: &Found| {
            let mut count = Count::default();
            count.rows = all.jobs.len() as u64;
            count.more = all.next.is_some();
            count
        };
        if self.goes_by_id() {
            let mut found = self.find(conn, schema, COUNTED.max(limit))?;
            let count = counted(&found);
            if found.jobs.len() > limit {
                found.jobs.truncate(limit);
                found.next = found.jobs.last().and_then(place);
            }
            return Ok((found, count));
        }
        let found = self.find(conn, schema, limit)?;
        let count = match found.jobs.len() < limit {
            true => counted(&found),
            false => counted(&self.find(conn, schema, COUNTED)?),
        };
        Ok((found, count))
    }

    /// Else it goes by the time of the end, which a summary does not tell as exactly as a place needs it.
    fn goes_by_id(&self) -> bool {
        let is_open = |state| matches!(stored(state), State::Ready | State::Running);
        self.of_batch || self.state.is_none_or(is_open)
    }
}

/// Whether so many were counted that counting ended, and not looking.
pub(crate) fn is_full(count: Count) -> bool {
    count.more && count.rows >= COUNTED as u64
}

/// What a query says of the jobs that are meant, for links and forms.
pub(crate) fn fields(query: &Pairs) -> Vec<(&'static str, Option<Cow<'_, str>>)> {
    let of = |name: &'static str| (name, query.name(name).map(Cow::Borrowed));
    FIELDS.into_iter().map(of).collect()
}

/// The state as the tables have it.
fn stored(state: &str) -> State {
    match state {
        texts::RUNNING => State::Running,
        texts::COMPLETED => State::Completed,
        texts::DISCARDED => State::Discarded,
        texts::CANCELLED => State::Cancelled,
        _ => State::Ready,
    }
}

/// The state of a job as people name it.
pub(crate) fn standing(job: &JobSummary) -> &'static str {
    match job.state {
        _ if job.scheduled => texts::SCHEDULED,
        _ if job.blocked => texts::BLOCKED,
        state => state.as_str(),
    }
}

/// The place of a job among those that go by id.
fn place(job: &JobSummary) -> Option<Place> {
    job.id.to_string().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_key_may_be_written_shortly() {
        assert_eq!(unique_texts("a"), ["a"]);
        assert_eq!(unique_texts("id=7"), ["id=7", r#"[["id",7]]"#, r#"[["id","7"]]"#]);
        assert_eq!(unique_texts("text=a=b"), ["text=a=b", r#"[["text","a=b"]]"#]);
    }
}
