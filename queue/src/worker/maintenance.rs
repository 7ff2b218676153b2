//! Maintenance: the sweep of expired leases, jobs and keys, the purge of finished jobs, schedules, and this process's row
//! in the table of workers.

use std::time::{Duration, Instant};

use crossbeam_channel::select;
use diesel::result::QueryResult;

use super::control::{Failure, Rest, spread};
use super::retention::Purges;
use super::{Shared, Stop};
use crate::backend::{Backend, Swept};
use crate::events::JobInfo;
use crate::inspect::State;
use crate::schema::Schema;

/// Rows at the most in one sweep: a jump of the database's clock must not make one process take back everything at once.
const SWEEP_LIMIT: i64 = 500;
/// How long it may take one by one: the heartbeat shares the connection.
const ONE_BY_ONE: Duration = Duration::from_secs(1);
/// Counted starts at the most that are removed in one round.
const STARTS_LIMIT: i64 = 5000;
const SHOW_EVERY: Duration = Duration::from_secs(10);
/// How long records of fires are kept: 30 days.
const KEEP_FIRES_MS: i64 = 30 * 24 * 3600 * 1000;
/// How long finished batches are kept: 90 days, as discarded jobs are by default.
const KEEP_BATCHES_MS: i64 = 90 * 24 * 3600 * 1000;

/// Sweeps until the worker stops.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) {
    let mut show_at = Instant::now();
    #[cfg(feature = "schedules")]
    let mut schedules = super::schedules::Schedules::default();
    let mut purges = Purges::new();
    let mut rest = Rest::default();
    loop {
        if Instant::now() >= show_at {
            show_at = Instant::now() + SHOW_EVERY;
            let _ = briefly(shared, |conn| conn.show_worker(&shared.schema, &shared.worker));
            let _ = briefly(shared, |conn| conn.sweep_keys(&shared.schema, SWEEP_LIMIT));
            let _ = briefly(shared, |conn| {
                conn.sweep_fires(&shared.schema, KEEP_FIRES_MS, SWEEP_LIMIT)
            });
            let _ = briefly(shared, |conn| {
                conn.sweep_batches(&shared.schema, KEEP_BATCHES_MS, SWEEP_LIMIT)
            });
            #[cfg(feature = "metrics")]
            show_depths(shared);
        }
        purges.run(shared);
        if !shared.counted.is_empty() {
            let _ = briefly(shared, |conn| conn.sweep_starts(&shared.schema, STARTS_LIMIT));
        }
        super::selected::resolve(shared);
        let begun = Instant::now();
        // Both, whatever the first one finds.
        let full = sweep(shared) | discard_expired(shared);
        let dear = rest.after(begun.elapsed());
        let wait = spread(if full {
            shared.sweep_every / 10
        } else {
            shared.sweep_every.max(dear)
        });
        #[cfg(feature = "schedules")]
        let wait = schedules.fire(shared).map_or(wait, |next| next.min(wait));
        let stop: &Stop = &shared.stop;
        select! {
            recv(stop.stopped()) -> _ => return,
            default(wait) => {}
        }
    }
}

/// Runs one statement on the heartbeat's connection, which must not wait long for a table's lock.
pub(super) fn briefly<C: Backend, A, T>(
    shared: &Shared<C, A>,
    statement: impl FnOnce(&mut C) -> QueryResult<T>,
) -> Result<T, Failure> {
    shared
        .beats
        .lock()
        .run(|conn| conn.briefly(&shared.settings, statement))
}

#[cfg(feature = "metrics")]
fn show_depths<C: Backend, A>(shared: &Shared<C, A>) {
    let depths = briefly(shared, |conn| {
        conn.depths(&shared.schema, &shared.serves, crate::metrics::DEPTH_LIMIT)
    });
    depths.unwrap_or_default().iter().for_each(crate::metrics::depth);
}

/// One sweep; whether there may be more.
fn sweep<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> bool {
    let swept = match briefly(shared, |conn| conn.sweep(&shared.schema, SWEEP_LIMIT)) {
        Ok(swept) => swept,
        Err(Failure::Refused(_)) => one_by_one(shared, C::expired, C::sweep_one),
        Err(Failure::Away) => return false,
    };
    for row in &swept {
        let job = info(row);
        if row.begun {
            shared
                .reporter
                .failed(&job, "lease expired", "the lease ran out without a heartbeat");
        }
        shared.reporter.swept(&job, State::parse(&row.state));
    }
    if !swept.is_empty() {
        shared.wake();
    }
    if swept.iter().any(|row| row.state != "ready") {
        shared.follow_ups.look_at_all();
    }
    i64::try_from(swept.len()) == Ok(SWEEP_LIMIT)
}

/// Discards ready jobs that have expired, in one statement; whether there may be more.
fn discard_expired<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> bool {
    let discarded = match briefly(shared, |conn| conn.discard_expired(&shared.schema, SWEEP_LIMIT)) {
        Ok(discarded) => discarded,
        Err(Failure::Refused(_)) => one_by_one(shared, C::expired_jobs, C::discard_expired_one),
        Err(Failure::Away) => return false,
    };
    for row in &discarded {
        shared.reporter.discarded(&info(row), "expired");
    }
    if !discarded.is_empty() {
        shared.follow_ups.look_at_all();
    }
    i64::try_from(discarded.len()) == Ok(SWEEP_LIMIT)
}

fn info(row: &Swept) -> JobInfo<'_> {
    JobInfo {
        ran: None,
        span: crate::trace::SpanRef::default(),
        id: row.id,
        queue: &row.queue,
        kind: &row.kind,
        attempt: row.attempt.unsigned_abs(),
        generation: row.generation,
    }
}

/// When the database refuses a statement for many jobs as a whole, one row is to blame (an application's foreign key keeps
/// it from ending, say). It must not keep all the others from running again.
fn one_by_one<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    list: fn(&mut C, &Schema, i64) -> QueryResult<Vec<i64>>,
    take: fn(&mut C, &Schema, i64) -> QueryResult<Option<Swept>>,
) -> Vec<Swept> {
    let begun = Instant::now();
    let expired = briefly(shared, |conn| list(conn, &shared.schema, SWEEP_LIMIT));
    let mut taken = Vec::new();
    for id in expired.unwrap_or_default() {
        match briefly(shared, |conn| take(conn, &shared.schema, id)) {
            Ok(one) => taken.extend(one),
            Err(Failure::Refused(error)) => {
                log::error!("not taken job={id}: it has expired, or its lease: {error}")
            }
            Err(Failure::Away) => break,
        }
        if begun.elapsed() > ONE_BY_ONE {
            break;
        }
    }
    taken
}
