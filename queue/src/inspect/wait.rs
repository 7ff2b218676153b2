//! Waiting for the end of a job.

use std::time::{Duration, Instant};

use diesel::result::Error;

use super::{JobRecord, State, job};
use crate::backend::AsBackend;
use crate::commit::depth;
use crate::schema::Schema;
use crate::wake::Ended;

/// The first look after the one at once; each wait is half as long again.
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// The longest time between an end and the look that finds it.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Why a wait came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// It had not ended when the time was up.
    #[error("{what} had not ended after {timeout:?}")]
    Timeout {
        /// The job or batch.
        what: String,
        /// The time that was given.
        timeout: Duration,
    },
    /// There is no such row.
    #[error("there is no {what}: it may have been purged")]
    Missing {
        /// The job or batch.
        what: String,
    },
    /// A transaction is open on the connection, and may not see what others commit meanwhile.
    #[error("{what} has not ended, and its end may not show inside an open transaction: wait outside of it")]
    InTransaction {
        /// The job or batch.
        what: String,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Waits until a job has ended, and returns it. What this process's workers end is seen at once, what others end within
/// half a second.
///
/// # Errors
///
/// [`WaitError`]; at once when there is no such job.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use std::time::Duration;
/// use leasehold::inspect::{self, State};
/// use leasehold::{Schema, Worker};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let running = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>().start()?;
/// let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
/// let job = inspect::wait_for(&mut conn, &Schema::default(), id, Duration::from_secs(60))?;
/// assert_eq!(job.state, State::Completed);
/// # drop(running);
/// # Ok(())
/// # }
/// ```
pub fn wait_for(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
    timeout: Duration,
) -> Result<JobRecord, WaitError> {
    wait_until(conn, format!("job {id}"), timeout, true, |conn| {
        let Some(job) = job(conn, schema, id)? else {
            return Ok(Look::Missing);
        };
        Ok(match job.state {
            State::Ready | State::Running => Look::NotYet,
            _ => Look::Ended(job),
        })
    })
}

/// What one look found.
pub(crate) enum Look<T> {
    Missing,
    NotYet,
    Ended(T),
}

/// Looks until it has ended, at growing intervals; with `at_each_end` also when a worker of this process ended a job.
pub(crate) fn wait_until<B: AsBackend, T>(
    conn: &mut B,
    what: String,
    timeout: Duration,
    at_each_end: bool,
    mut look: impl FnMut(&mut B) -> Result<Look<T>, Error>,
) -> Result<T, WaitError> {
    let deadline = Instant::now().checked_add(timeout);
    let ended = Ended::listen();
    let mut wait = FIRST_WAIT;
    loop {
        let seen = ended.number();
        match look(conn)? {
            Look::Ended(found) => return Ok(found),
            Look::Missing => return Err(WaitError::Missing { what }),
            Look::NotYet if depth(conn.as_backend())? > 0 => return Err(WaitError::InTransaction { what }),
            Look::NotYet => {}
        }
        let left = deadline.map_or(LONGEST_WAIT, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        if left.is_zero() {
            return Err(WaitError::Timeout { what, timeout });
        }
        match at_each_end {
            true => ended.wait(seen, wait.min(left)),
            false => std::thread::sleep(wait.min(left)),
        }
        wait = (wait * 3 / 2).min(LONGEST_WAIT);
    }
}
