//! Maintenance: the sweep of expired leases and keys, and this process's row in the table of workers.

use std::time::{Duration, Instant};

use crossbeam_channel::select;

use super::control::spread;
use super::{Shared, Stop};
use crate::backend::Backend;
use crate::events::JobInfo;

/// Rows at the most in one sweep: a jump of the database's clock must not make one process take back everything at once.
const SWEEP_LIMIT: i64 = 500;
const SHOW_EVERY: Duration = Duration::from_secs(10);

/// Sweeps until the worker stops.
pub(crate) fn run<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) {
    let mut show_at = Instant::now();
    loop {
        if Instant::now() >= show_at {
            show_at = Instant::now() + SHOW_EVERY;
            let _ = shared
                .beats
                .lock()
                .run(|conn| conn.show_worker(&shared.schema, &shared.worker));
            let _ = shared
                .beats
                .lock()
                .run(|conn| conn.sweep_keys(&shared.schema, SWEEP_LIMIT));
        }
        let full = sweep(shared);
        let stop: &Stop = &shared.stop;
        select! {
            recv(stop.stopped()) -> _ => return,
            default(spread(if full { shared.sweep_every / 10 } else { shared.sweep_every })) => {}
        }
    }
}

/// One sweep; whether there may be more.
fn sweep<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>) -> bool {
    let Ok(swept) = shared.beats.lock().run(|conn| conn.sweep(&shared.schema, SWEEP_LIMIT)) else {
        return false;
    };
    for row in &swept {
        let job = JobInfo {
            id: row.id,
            queue: &row.queue,
            kind: &row.kind,
            attempt: row.attempt.unsigned_abs(),
            generation: row.generation,
        };
        shared.reporter.swept(&job, &row.state);
    }
    if !swept.is_empty() {
        shared.wake();
    }
    i64::try_from(swept.len()) == Ok(SWEEP_LIMIT)
}
