//! Forget: the recorded steps of a job are removed.

use diesel::result::{Error, QueryResult};

use super::deed::Deed;
use crate::backend::{AsBackend, Backend, CommitStatements};
use crate::inspect::State;
use crate::migrate::Migrate;
use crate::schema::Schema;

/// Looks at a job that moves from table to table meanwhile.
const LOOKS: u32 = 10;

/// Why the steps of a job were not forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetStepsError {
    /// There is no such job; it may have been purged, and its steps with it.
    #[error("there is no job {id}: it may have been purged, and its steps with it")]
    Missing {
        /// The id.
        id: i64,
    },
    /// A worker has the job, and may have read them.
    #[error("job {id} is running, and its worker may have read its steps: cancel it, or wait for its end")]
    Running {
        /// The id.
        id: i64,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Removes the [recorded](crate::LeaseGuard::step) steps of a job that is not running, and returns how many there were.
///
/// If the job runs again, each of its effects is called once more, with the same key.
///
/// # Errors
///
/// [`ForgetStepsError`]; nothing is removed then.
pub fn forget_steps(
    conn: &mut impl AsBackend,
    schema: &Schema,
    job_id: i64,
    by: &str,
) -> Result<u64, ForgetStepsError> {
    let deed = Deed::new(by, None);
    conn.as_backend().patiently(|conn| {
        for _ in 0..LOOKS {
            if let Some(forgotten) = forget(conn, schema, job_id, &deed)? {
                return Ok(forgotten.unsigned_abs());
            }
            match conn.ownership(schema, job_id)? {
                None => return Err(ForgetStepsError::Missing { id: job_id }),
                Some(row) if State::parse(&row.state) == State::Running => break,
                Some(_) => {}
            }
        }
        Err(ForgetStepsError::Running { id: job_id })
    })?
}

fn forget<C: Backend>(conn: &mut C, schema: &Schema, job_id: i64, deed: &Deed) -> QueryResult<Option<i64>> {
    deed.to_jobs(conn, schema, ("forget steps", 0), |conn| {
        let forgotten = conn.forget_steps(schema, job_id)?;
        let changed = forgotten.is_some_and(|count| count > 0).then_some(job_id);
        Ok((forgotten, changed.into_iter().collect()))
    })
}
