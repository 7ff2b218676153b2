//! The jobs: one that does nothing, and one that inserts a row.

use diesel::prelude::*;
use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::raw::Plain;

#[allow(missing_docs, reason = "a table of the bench")]
mod schema {
    diesel::table! { bench_rows (id) { id -> BigInt, job -> BigInt } }
}
use schema::bench_rows;

/// How many jobs one call enqueues.
pub const BULK: usize = 1000;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Does nothing.
    Finish,
    /// Inserts a row.
    Commit,
}

/// A job that does nothing.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "finish")]
pub struct Finish {
    filler: String,
}

/// A job that inserts a row.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "commit")]
pub struct Commit {
    filler: String,
}

impl<C: Backend> Handler<C> for Finish {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        lease.finish()
    }
}

macro_rules! commit_handler {
    ($C:ty) => {
        impl Handler<$C> for Commit {
            fn run<'j>(self, lease: LeaseGuard<'j, $C>, (): &()) -> Outcome<'j> {
                let job = lease.job_id();
                lease.commit(|tx| {
                    diesel::insert_into(bench_rows::table)
                        .values(bench_rows::job.eq(job))
                        .execute(tx)?;
                    Ok(())
                })
            }
        }
    };
}
#[cfg(feature = "postgres")]
commit_handler!(PgConnection);
#[cfg(feature = "sqlite")]
commit_handler!(SqliteConnection);

/// About 200 bytes, as a payload often has.
fn filler() -> String {
    "x".repeat(200)
}

impl Kind {
    /// Its stored name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Finish => Finish::KIND,
            Self::Commit => Commit::KIND,
        }
    }

    pub(crate) fn register<C>(self, worker: Worker<C, ()>) -> Worker<C, ()>
    where
        C: Backend,
        Commit: Handler<C>,
    {
        match self {
            Self::Finish => worker.register::<Finish>(),
            Self::Commit => worker.register::<Commit>(),
        }
    }

    /// Enqueues so many of it in one transaction each thousand, as the library does it.
    ///
    /// # Errors
    ///
    /// The database's.
    pub fn enqueue<C: Backend>(self, conn: &mut C, jobs: usize) -> Answer {
        for chunk in chunks(jobs) {
            let options = leasehold::EnqueueOptions::new();
            match self {
                Self::Finish => {
                    Finish::enqueue_all(&vec![Finish { filler: filler() }; chunk], conn, &options)?;
                }
                Self::Commit => {
                    Commit::enqueue_all(&vec![Commit { filler: filler() }; chunk], conn, &options)?;
                }
            }
        }
        Ok(())
    }

    /// Enqueues so many one by one.
    ///
    /// # Errors
    ///
    /// The database's.
    pub fn enqueue_each<C: Backend>(self, conn: &mut C, jobs: usize) -> Answer {
        for _ in 0..jobs {
            match self {
                Self::Finish => Finish { filler: filler() }.enqueue(conn)?,
                Self::Commit => Commit { filler: filler() }.enqueue(conn)?,
            };
        }
        Ok(())
    }

    /// What an enqueue of it writes, for the reference.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn plain(self) -> Answer<Plain> {
        Ok(Plain {
            queue: Finish::QUEUE,
            kind: self.name(),
            version: i32::try_from(Finish::VERSION)?,
            payload: serde_json::to_string(&Finish { filler: filler() })?,
            max_attempts: i32::try_from(Finish::MAX_ATTEMPTS)?,
            lease_ms: i64::try_from(Finish::LEASE.as_millis())?,
        })
    }
}

/// `jobs` in pieces of [`BULK`].
pub fn chunks(jobs: usize) -> impl Iterator<Item = usize> {
    (0..jobs).step_by(BULK).map(move |begin| BULK.min(jobs - begin))
}
