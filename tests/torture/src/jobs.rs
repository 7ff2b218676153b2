//! The jobs that the workers run, and what their handlers note.

use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::prelude::*;
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use leasehold::__private::{Fence, fence_of};
use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::log::{Line, Log};

/// A connection that writes business rows.
pub(crate) trait Effects: Backend {
    /// Writes the business row of a job, with the fence of who writes it beside it.
    ///
    /// # Errors
    ///
    /// The database's.
    fn effect(&mut self, fence: &Fence) -> QueryResult<usize>;

    /// How many transactions are open on it.
    fn depth(&mut self) -> u32;
}

macro_rules! effects {
    ($connection:ty) => {
        impl Effects for $connection {
            fn effect(&mut self, fence: &Fence) -> QueryResult<usize> {
                diesel::sql_query("INSERT INTO effects (job_id, generation, token) VALUES ($1, $2, $3)")
                    .bind::<BigInt, _>(fence.id)
                    .bind::<BigInt, _>(fence.generation)
                    .bind::<Text, _>(fence.lease_token.simple().to_string())
                    .execute(self)
            }

            fn depth(&mut self) -> u32 {
                AnsiTransactionManager::transaction_manager_status_mut(self)
                    .transaction_depth()
                    .ok()
                    .flatten()
                    .map_or(0, |depth| depth.get())
            }
        }
    };
}
#[cfg(feature = "sqlite")]
effects!(diesel::SqliteConnection);
#[cfg(feature = "postgres")]
effects!(diesel::PgConnection);

/// Commits one business row, in one of the ways that handlers have.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "hit", max_attempts = 1000, backoff = "fixed(50ms)", lease = "1s")]
pub(crate) struct Hit {
    /// Names it.
    pub(crate) n: u64,
}

/// Has nothing to write, so its completion is written together with those of others.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "idle", max_attempts = 1000, backoff = "fixed(50ms)", lease = "1s")]
pub(crate) struct Idle {
    /// Names it.
    pub(crate) n: u64,
}

/// Kills its process at every attempt.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "poison", max_attempts = 3, backoff = "fixed(50ms)", lease = "1s")]
pub(crate) struct Poison {
    /// Names it.
    pub(crate) n: u64,
}

fn begin<C: Backend>(log: &Log, lease: &LeaseGuard<'_, C>, max_attempts: u32) -> Fence {
    let fence = fence_of(lease);
    log.add(&Line::Claimed(fence, lease.attempt(), max_attempts));
    fence
}

impl<C: Effects> Handler<C, Log> for Hit {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, log: &Log) -> Outcome<'j> {
        let fence = begin(log, &lease, Self::MAX_ATTEMPTS);
        let way = fastrand::u32(0..100);
        let at_depth_one = |conn: &mut C| {
            let depth = conn.depth();
            if depth != 1 {
                log.add(&Line::Depth(fence, depth));
            }
        };
        if way < 30 {
            lease.read(|conn| {
                at_depth_one(conn);
                Ok::<_, JobError>(())
            })?;
        }
        // What it does outside of the database; now and then for longer than a lease.
        let work = if way == 30 { 1200 } else { fastrand::u64(0..30) };
        std::thread::sleep(Duration::from_millis(work));
        match way {
            31..34 => return Err(JobError::retry("not this time")),
            34..36 => return lease.snooze(Duration::from_millis(30)),
            _ => {}
        }
        let outcome = lease.commit(|tx| {
            at_depth_one(tx);
            tx.effect(&fence)?;
            match way {
                36..39 => Err(JobError::retry("not this time, after its write")),
                39 => panic!("after its write"),
                // A write that holds its row and locks for a while.
                40..43 => {
                    std::thread::sleep(Duration::from_millis(60));
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        log.add(&match &outcome {
            Ok(_) => Line::Committed(fence),
            Err(error) => error
                .refusal()
                .map_or(Line::Failed(fence), |refusal| Line::refused(fence, refusal)),
        });
        outcome
    }
}

impl<C: Effects> Handler<C, Log> for Idle {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, log: &Log) -> Outcome<'j> {
        begin(log, &lease, Self::MAX_ATTEMPTS);
        lease.finish()
    }
}

impl<C: Effects> Handler<C, Log> for Poison {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, log: &Log) -> Outcome<'j> {
        begin(log, &lease, Self::MAX_ATTEMPTS);
        std::process::abort()
    }
}
