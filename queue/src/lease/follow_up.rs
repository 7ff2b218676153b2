//! What a handler may know of the jobs around its own.

use serde::de::DeserializeOwned;

use super::LeaseGuard;
use crate::backend::Backend;
use crate::batch::{self, BatchRecord};
use crate::handler::JobError;
use crate::inspect;

impl<C: Backend> LeaseGuard<'_, C> {
    /// The batch that this job belongs to; what it adds by [`batch::add`] in its commit belongs there, too.
    #[must_use]
    pub fn batch_id(&self) -> Option<i64> {
        self.held.batch_id
    }

    /// The batch whose callback this job is, with its counts; `None` for any other job. Reads from the database, as
    /// [`LeaseGuard::read`] does.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::read`].
    pub fn callback_of(&mut self) -> Result<Option<BatchRecord>, JobError> {
        let (schema, id) = (self.slot.schema().clone(), self.job_id());
        self.read(|conn| batch::of_callback(conn, &schema, id))
    }

    /// The result of the job that this one waited for under a name: its
    /// [`WorkflowJob::named`](crate::WorkflowJob::named), else its kind. `None` if it has none: it gave no result, or it did
    /// not complete (see [`WorkflowJob::run_anyway`](crate::WorkflowJob::run_anyway)). Of several under that name, the
    /// first. Reads from the database, as [`LeaseGuard::read`] does.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::read`]; a failed attempt when this job waited for none of that name, or when the result is not a `T`.
    pub fn result_of<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, JobError> {
        Ok(self.results_of(name)?.swap_remove(0))
    }

    /// As [`LeaseGuard::result_of`], of all jobs that this one waited for under the name, in the order in which they were
    /// added to the workflow; never empty.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::result_of`].
    pub fn results_of<T: DeserializeOwned>(&mut self, name: &str) -> Result<Vec<Option<T>>, JobError> {
        let (schema, id) = (self.slot.schema().clone(), self.job_id());
        let rows = self.read(|conn| conn.results_waited_for(&schema, id, name))?;
        if rows.is_empty() {
            return Err(JobError::retry(format!("this job waited for none named `{name}`")));
        }
        rows.iter()
            .map(|row| {
                Ok(row
                    .result
                    .as_deref()
                    .map(|json| inspect::decode(row.job_id, json))
                    .transpose()?)
            })
            .collect()
    }
}
