//! Maintenance: the sweep of expired leases and keys, and this process's row in the table of workers.

use std::time::{Duration, Instant};

use crossbeam_channel::select;
use diesel::result::QueryResult;

use super::control::{Failure, spread};
use super::{Shared, Stop};
use crate::backend::{Backend, Swept};
use crate::events::JobInfo;
use crate::inspect::State;

/// Rows at the most in one sweep: a jump of the database's clock must not make one process take back everything at once.
const SWEEP_LIMIT: i64 = 500;
/// How long a sweep one by one may take: the heartbeat shares the connection.
const ONE_BY_ONE: Duration = Duration::from_secs(1);
/// Counted starts at the most that are removed in one round.
const STARTS_LIMIT: i64 = 5000;
const SHOW_EVERY: Duration = Duration::from_secs(10);

/// Sweeps until the worker stops.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) {
    let mut show_at = Instant::now();
    loop {
        if Instant::now() >= show_at {
            show_at = Instant::now() + SHOW_EVERY;
            let _ = briefly(shared, |conn| conn.show_worker(&shared.schema, &shared.worker));
            let _ = briefly(shared, |conn| conn.sweep_keys(&shared.schema, SWEEP_LIMIT));
        }
        if !shared.counted.is_empty() {
            let _ = briefly(shared, |conn| conn.sweep_starts(&shared.schema, STARTS_LIMIT));
        }
        let full = sweep(shared);
        let stop: &Stop = &shared.stop;
        select! {
            recv(stop.stopped()) -> _ => return,
            default(spread(if full { shared.sweep_every / 10 } else { shared.sweep_every })) => {}
        }
    }
}

/// Runs one statement on the heartbeat's connection, which must not wait long for a table's lock.
fn briefly<C: Backend, A, T>(
    shared: &Shared<C, A>,
    statement: impl FnOnce(&mut C) -> QueryResult<T>,
) -> Result<T, Failure> {
    shared
        .beats
        .lock()
        .run(|conn| conn.briefly(&shared.settings, statement))
}

/// One sweep; whether there may be more.
fn sweep<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> bool {
    let swept = match briefly(shared, |conn| conn.sweep(&shared.schema, SWEEP_LIMIT)) {
        Ok(swept) => swept,
        Err(Failure::Refused(_)) => sweep_one_by_one(shared),
        Err(Failure::Away) => return false,
    };
    for row in &swept {
        let job = JobInfo {
            id: row.id,
            queue: &row.queue,
            kind: &row.kind,
            attempt: row.attempt.unsigned_abs(),
            generation: row.generation,
        };
        shared.reporter.swept(&job, State::parse(&row.state));
    }
    if !swept.is_empty() {
        shared.wake();
    }
    i64::try_from(swept.len()) == Ok(SWEEP_LIMIT)
}

/// When the database refuses a sweep as a whole, one row is to blame (an application's foreign key keeps it from ending,
/// say). It must not keep all the others from running again.
fn sweep_one_by_one<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> Vec<Swept> {
    let begun = Instant::now();
    let expired = briefly(shared, |conn| conn.expired(&shared.schema, SWEEP_LIMIT));
    let mut swept = Vec::new();
    for id in expired.unwrap_or_default() {
        match briefly(shared, |conn| conn.sweep_one(&shared.schema, id)) {
            Ok(one) => swept.extend(one),
            Err(Failure::Refused(error)) => log::error!("job {id}: its expired lease cannot be taken back: {error}"),
            Err(Failure::Away) => break,
        }
        if begun.elapsed() > ONE_BY_ONE {
            break;
        }
    }
    swept
}
