use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diesel::result::QueryResult;
use leasehold::__private::Fence;
use leasehold::inspect::{Filter, State};
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema};
use serde::{Deserialize, Serialize};

use crate::probe::*;

/// Few accounts, so that everybody wants the same keys.
const ACCOUNTS: i64 = 40;
const LASTS: Duration = Duration::from_secs(4);

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "bill", unique(by = "account"))]
struct Bill {
    account: i64,
}

fn claim<C: Backend>(conn: &mut C) -> QueryResult<Vec<Fence>> {
    let serves = [Served {
        queue: "default".to_owned(),
        kind: "bill".to_owned(),
        version: 1,
    }];
    let request = ClaimRequest {
        serves: &serves,
        limit: 20,
        lease_token: uuid::Uuid::new_v4(),
        worker: uuid::Uuid::new_v4(),
        begun: true,
        counted: &[],
        oldest: false,
    };
    let rows = conn.claim(&Schema::default(), &request)?;
    let fence = |row: &ClaimedRow| Fence {
        id: row.id,
        generation: row.generation,
        lease_token: request.lease_token,
    };
    // In no order: to put them into one is the statements' own affair.
    let mut fences: Vec<Fence> = rows.iter().map(fence).collect();
    fences.sort_unstable_by_key(|fence| fence.id % 7);
    Ok(fences)
}

/// What some process does at any time to many rows in one statement.
type Part<C> = (&'static str, fn(&mut C, i64) -> QueryResult<()>);

fn parts<C: Backend>() -> [Part<C>; 9] {
    [
        ("enqueue", |conn, turn| {
            let account = |n| Bill {
                account: (turn * 7 + n * 11) % ACCOUNTS,
            };
            let bills: Vec<Bill> = (0..ACCOUNTS / 2).map(account).collect();
            let options = EnqueueOptions::new().lease(Duration::from_millis(1));
            match Job::enqueue_all(&bills, conn, &options) {
                Err(leasehold::EnqueueError::Database(error)) => Err(error),
                enqueued => enqueued.map(drop).map_err(|error| panic!("{error}")),
            }
        }),
        ("claim and finish", |conn, _| {
            let fences = claim(conn)?;
            conn.finish(&Schema::default(), &fences).map(drop)
        }),
        ("claim and heartbeat and release", |conn, _| {
            let fences = claim(conn)?;
            conn.heartbeat(&Schema::default(), &fences)?;
            conn.begin(&Schema::default(), &fences)?;
            conn.release(&Schema::default(), &fences).map(drop)
        }),
        ("claim and abandon", |conn, _| claim(conn).map(drop)),
        ("sweep", |conn, _| conn.sweep(&Schema::default(), 500).map(drop)),
        ("sweep keys", |conn, _| {
            conn.sweep_keys(&Schema::default(), 500).map(drop)
        }),
        ("cancel", |conn, turn| {
            let how = if turn % 2 == 0 { Cancel::Hard } else { Cancel::Soft };
            manage::cancel_all(conn, &Schema::default(), &Filter::new().kind("bill"), how, "enough").map(drop)
        }),
        ("requeue", |conn, _| {
            let cancelled = Filter::new().kind("bill").state(State::Cancelled);
            manage::requeue_all(conn, &Schema::default(), &cancelled).map(drop)
        }),
        ("purge", |conn, turn| {
            let state = if turn % 2 == 0 {
                State::Cancelled
            } else {
                State::Completed
            };
            manage::purge(conn, &Schema::default(), state, Duration::from_millis(20)).map(drop)
        }),
    ]
}

conformance!(
    /// Statements on many rows take them in one order, so that none of them is the victim of a deadlock.
    fn statements_on_many_rows_at_once_do_not_deadlock(db: &mut Db) {
        drop(migrated(db));
        let (failed, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let since = Instant::now();
        std::thread::scope(|scope| {
            for (what, part) in parts::<Connection>() {
                // By hand they run on a connection of the application's own, with its settings.
                let by_hand = matches!(what, "cancel" | "requeue" | "purge" | "enqueue");
                for _ in 0..2 {
                    let mut conn = match by_hand {
                        true => db.connect(),
                        false => Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap(),
                    };
                    let (failed, stop) = (&failed, &stop);
                    scope.spawn(move || {
                        for turn in 0.. {
                            if let Err(error) = part(&mut conn, turn) {
                                failed.lock().unwrap().push(format!("{what}: {error}"));
                            }
                            if stop.load(Ordering::Acquire) {
                                return;
                            }
                        }
                    });
                }
            }
            eventually(SOON, "it has gone on for a while", || since.elapsed() > LASTS);
            stop.store(true, Ordering::Release);
        });
        assert_eq!(failed.into_inner().unwrap(), Vec::<String>::new());
        for state in ["completed", "cancelled"] {
            let ended = format!("SELECT count(*) FROM leasehold.finished_jobs WHERE state = '{state}'");
            assert!(db.integer(&ended) > 0, "{state}");
        }
    }
);
