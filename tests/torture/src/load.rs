//! What goes on beside the workers: enqueues, people who cancel and requeue, maintenance that locks, and somebody who looks.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema};

use crate::faults::Shared;
use crate::jobs::{Hit, Idle, Poison};
use crate::site::{Ask, Site};

/// Jobs that wait at the most: enough that no worker idles, and few enough that the end comes soon.
const BACKLOG: i64 = 150;

/// A job whose lease has run out is taken back within this: the lease, the interval of the sweep, the five seconds after
/// which the server ends a commit that does not come, and time for a busy machine.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// Enqueues until faults end; the ids that were acknowledged.
pub(crate) fn enqueue<S: Site>(shared: &Shared<S>, poison: u64) -> Vec<i64> {
    let mut ids = Vec::new();
    let mut n = 0;
    while !shared.calm.load(Ordering::Acquire) {
        let Some(mut conn) = shared.connection() else { break };
        while !shared.calm.load(Ordering::Acquire) {
            match conn.number("SELECT count(*) FROM leasehold.jobs") {
                Ok(waiting) if waiting >= BACKLOG => std::thread::sleep(Duration::from_millis(20)),
                Ok(_) => match enqueue_some(&mut conn, &mut n, poison) {
                    Ok(some) => ids.extend(some),
                    Err(_) => break,
                },
                Err(_) => break,
            }
        }
    }
    ids
}

fn enqueue_some<C: leasehold::Backend>(
    conn: &mut C,
    n: &mut u64,
    poison: u64,
) -> Result<Vec<i64>, leasehold::EnqueueError> {
    let mut ids = Vec::new();
    for _ in 0..5 {
        // The same key until it is acknowledged: one job, however often its answer is lost.
        let once = EnqueueOptions::new().idempotency_key(format!("torture {n}"));
        let enqueued = match *n {
            n if n % 400 == 7 && n / 400 < poison => Poison { n }.enqueue_with(conn, &once)?,
            n if n % 4 == 0 => Idle { n }.enqueue_with(conn, &once)?,
            n => Hit { n }.enqueue_with(conn, &once)?,
        };
        ids.push(enqueued.id());
        *n += 1;
    }
    Ok(ids)
}

/// Cancels jobs, softly and at once, and requeues cancelled ones.
pub(crate) fn operate<S: Site>(shared: &Shared<S>) {
    let schema = Schema::default();
    while let Some(mut conn) = shared.connection() {
        while !shared.calm.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(40));
            let done = match fastrand::u32(0..6) {
                0 => pick(&mut conn, "jobs", "kind = 'hit'").and_then(|id| match id {
                    Some(id) => manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "not needed").map(drop),
                    None => Ok(()),
                }),
                1..3 => pick(&mut conn, "jobs", "kind = 'hit'").and_then(|id| match id {
                    Some(id) => manage::cancel(&mut conn, &schema, id, Cancel::Soft, "ops", "not needed").map(drop),
                    None => Ok(()),
                }),
                _ => pick(&mut conn, "finished_jobs", "state = 'cancelled'").map(|id| {
                    // Somebody else's requeue may have been first.
                    let _ = id.map(|id| manage::requeue(&mut conn, &schema, id, "ops"));
                }),
            };
            if done.is_err() {
                break;
            }
        }
        if shared.calm.load(Ordering::Acquire) {
            return;
        }
    }
}

fn pick(conn: &mut impl Ask, table: &str, filter: &str) -> diesel::QueryResult<Option<i64>> {
    let ids = conn.texts(&format!(
        "SELECT id FROM leasehold.{table} WHERE {filter} ORDER BY random() LIMIT 1"
    ))?;
    Ok(ids.first().and_then(|id| id.parse().ok()))
}

/// Locks rows two by two, in either order.
pub(crate) fn lock<S: Site>(shared: &Shared<S>) {
    while let Some(mut conn) = shared.connection() {
        while !shared.calm.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(fastrand::u64(50..300)));
            let two = conn.texts("SELECT id FROM leasehold.jobs ORDER BY random() LIMIT 2");
            let Ok(two) = two else { break };
            if let [Ok(first), Ok(second)] = two.iter().map(|id| id.parse::<i64>()).collect::<Vec<_>>().as_slice()
                && S::lock_two(&mut conn, *first, *second).is_err()
            {
                // A deadlock that was ended here, or a connection that is gone.
                break;
            }
        }
        if shared.calm.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Looks for jobs that stay running after their lease; what it saw.
pub(crate) fn watch<S: Site>(shared: &Shared<S>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut expired: std::collections::HashMap<String, Instant> = std::collections::HashMap::new();
    while let Some(mut conn) = shared.connection() {
        while !shared.is_over() {
            std::thread::sleep(Duration::from_millis(250));
            let Ok(now) = conn.texts(S::expired()) else { break };
            expired.retain(|job, _| now.contains(job));
            for job in now {
                let since = *expired.entry(job.clone()).or_insert_with(Instant::now);
                if shared.down.load(Ordering::Acquire) {
                    expired.remove(&job);
                } else if since.elapsed() > STUCK_AFTER {
                    seen.push(format!("I10: {job} runs on {:?} after its lease", since.elapsed()));
                    expired.remove(&job);
                }
            }
        }
    }
    seen
}
