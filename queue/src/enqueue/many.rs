//! Jobs of any types that are enqueued together.

use super::{EnqueueError, EnqueueOptions, Enqueued, has_keys, insert, new_job};
use crate::backend::{Backend, NewJob};
use crate::job::Job;
use crate::schema::Schema;

/// Jobs in one statement.
const CHUNK: usize = 1000;
/// Bytes of payload in one statement, about: neither database takes one of a gigabyte.
const CHUNK_BYTES: usize = 16 * 1024 * 1024;

/// The rows in as many pieces as there are statements.
pub(super) fn chunks(mut rows: &[NewJob]) -> impl Iterator<Item = &[NewJob]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rows.iter().take(CHUNK).take_while(|row| {
            bytes += row.payload.len();
            bytes <= CHUNK_BYTES
        });
        let (chunk, rest) = rows.split_at_checked(fits.count().max(1))?;
        rows = rest;
        Some(chunk)
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::RunAt;
    use crate::job::Unique;

    fn rows(jobs: usize, bytes: usize) -> Vec<NewJob> {
        let row = NewJob {
            queue: "default".to_owned(),
            kind: "note".into(),
            version: 1,
            payload: "x".repeat(bytes),
            priority: 0,
            run_at: RunAt::After(0),
            max_attempts: 1,
            lease_ms: 1000,
            idempotency_key: None,
            remember_ms: 60_000,
            unique_key: None,
            unique: Unique::new(),
            expires_ms: None,
            limit_key: None,
            limit_rank: 0,
            batch_id: None,
            waits: false,
            awaited: false,
        };
        vec![row; jobs]
    }

    #[test]
    fn a_statement_is_bounded_in_rows_and_in_bytes() {
        let lengths = |rows: &[NewJob]| chunks(rows).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0_usize; 0]);
        assert_eq!(lengths(&rows(1, 10)), [1]);
        assert_eq!(lengths(&rows(2001, 10)), [1000, 1000, 1]);
        assert_eq!(lengths(&rows(40, 1024 * 1024)), [16, 16, 8]);
        // One that is larger than all goes by itself.
        assert_eq!(lengths(&rows(2, CHUNK_BYTES + 1)), [1, 1]);
    }
}
