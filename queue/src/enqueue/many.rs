//! Jobs of any types that are enqueued together.

use super::{EnqueueError, EnqueueOptions, Enqueued, has_keys, insert, new_job};
use crate::backend::{Backend, NewJob};
use crate::job::Job;
use crate::schema::Schema;

/// Checked jobs in the order in which they were given, those in one group with the same options.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    groups: Vec<(Vec<NewJob>, EnqueueOptions)>,
}

impl Jobs {
    pub(crate) fn push<J: Job>(&mut self, jobs: &[J], options: &EnqueueOptions) -> Result<(), EnqueueError> {
        if options.idempotency_key.is_some() && jobs.len() > 1 {
            return Err(EnqueueError::OneKeyForMany { jobs: jobs.len() });
        }
        let rows = jobs
            .iter()
            .map(|job| new_job(job, options))
            .collect::<Result<Vec<_>, _>>()?;
        match self.groups.last_mut() {
            // What the insert asks of the options is about keys.
            Some((last, _)) if !has_keys(last) && !has_keys(&rows) => last.extend(rows),
            _ => self.groups.push((rows, options.clone())),
        }
        Ok(())
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut NewJob> {
        self.groups.iter_mut().flat_map(|(rows, _)| rows)
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|(rows, _)| rows).map(|row| &*row.kind)
    }

    /// Inserts them in the transaction that is open on `conn`; the answers are in the order of the jobs.
    pub(crate) fn insert<C: Backend>(self, conn: &mut C, schema: &Schema) -> Result<Vec<Enqueued>, EnqueueError> {
        let mut all = Vec::new();
        for (rows, options) in self.groups {
            all.extend(insert(rows, conn, &options.schema(schema))?);
        }
        Ok(all)
    }
}
