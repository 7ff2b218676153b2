//! Deeds: what people do by hand is recorded with who and when, by the transaction that does it.

use diesel::result::{Error, QueryResult};

use crate::backend::{Backend, NewAction};
use crate::schema::Schema;
use crate::settle::{storable, storable_within};
use crate::transaction::atomically;

/// The longest name of a person that is kept, in bytes: there is an index on it.
const MAX_BY_BYTES: usize = 255;

/// Who acts, and why.
#[derive(Debug, Clone)]
pub(crate) struct Deed {
    pub(crate) by: String,
    /// `None` where nobody is asked for one.
    pub(crate) reason: Option<String>,
}

impl Deed {
    pub(crate) fn new(by: &str, reason: Option<&str>) -> Self {
        Self {
            by: signature(by),
            reason: reason.map(storable),
        }
    }

    /// The reason, or none.
    pub(crate) fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// Runs `work` and records it for the jobs that it names, whose generation it has made `raised` higher; all or nothing.
    pub(crate) fn to_jobs<C: Backend, T, E: From<Error>>(
        &self,
        conn: &mut C,
        schema: &Schema,
        (action, raised): (&'static str, i64),
        work: impl FnOnce(&mut C) -> Result<(T, Vec<i64>), E>,
    ) -> Result<T, E> {
        atomically(conn, |conn| {
            let at_ms = conn.clock()?;
            let (done, ids) = work(conn)?;
            if !ids.is_empty() {
                conn.record_job_actions(schema, &self.action(at_ms, action), &ids, raised)?;
            }
            Ok(done)
        })
    }

    /// Runs `work` and, if it says that it did something, records it for what has the name `target`; all or nothing.
    pub(crate) fn to<C: Backend, E: From<Error>>(
        &self,
        conn: &mut C,
        schema: &Schema,
        action: &'static str,
        (scope, target): (&str, &str),
        work: impl FnOnce(&mut C) -> Result<bool, E>,
    ) -> Result<bool, E> {
        atomically(conn, |conn| {
            let at_ms = conn.clock()?;
            let done = work(conn)?;
            if done {
                conn.record_action(schema, &self.action(at_ms, action), scope, target)?;
            }
            Ok(done)
        })
    }

    fn action(&self, at_ms: i64, action: &'static str) -> NewAction<'_> {
        NewAction {
            at_ms,
            by: &self.by,
            action,
            reason: self.reason.as_deref(),
        }
    }
}

/// A person's name as it is stored.
pub(crate) fn signature(by: &str) -> String {
    storable_within(by, MAX_BY_BYTES)
}

/// For many jobs: those that `work` names are all that it did.
pub(crate) fn all_of(ids: Vec<i64>) -> QueryResult<(Vec<i64>, Vec<i64>)> {
    Ok((ids.clone(), ids))
}
