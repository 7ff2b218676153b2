use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diesel::PgConnection;
use diesel::result::{Error, QueryResult};
use leasehold::__private::Fence;
use leasehold::inspect::{Filter, State};
use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema};
use leasehold_tests::postgres::database;
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
        behind: &[],
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

/// What some process does at any time to many rows in one statement; how many there were.
type Part<C> = (&'static str, fn(&mut C, i64) -> QueryResult<usize>);

fn parts<C: Backend>() -> [Part<C>; 9] {
    [
        ("enqueue", |conn, turn| {
            let options = EnqueueOptions::new().lease(Duration::from_millis(1));
            let accounts = (0..ACCOUNTS / 2).map(|n| (turn * 7 + n * 11) % ACCOUNTS);
            let bills: Vec<Bill> = accounts.map(|account| Bill { account }).collect();
            match Bill::enqueue_all(&bills, conn, &options) {
                Err(leasehold::EnqueueError::Database(error)) => return Err(error),
                enqueued => drop(enqueued.unwrap()),
            }
            Ok(1)
        }),
        ("finish", |conn, _| {
            let fences = claim(conn)?;
            Ok(conn.finish(&Schema::default(), &fences)?.len())
        }),
        ("begin, heartbeat and release", |conn, _| {
            let fences = claim(conn)?;
            conn.begin(&Schema::default(), &fences)?;
            conn.heartbeat(&Schema::default(), &fences)?;
            Ok(conn.release(&Schema::default(), &fences)?.len())
        }),
        ("claim and never come back", |conn, _| Ok(claim(conn)?.len())),
        ("sweep", |conn, _| Ok(conn.sweep(&Schema::default(), 500)?.len())),
        ("cancel", |conn, _| {
            let bills = Filter::new().kind("bill");
            let cancelled = manage::cancel_all(conn, &Schema::default(), &bills, Cancel::Hard, "ops", "enough")?;
            Ok(usize::try_from(cancelled).unwrap())
        }),
        ("ask to cancel", |conn, _| {
            let bills = Filter::new().kind("bill").state(State::Running);
            let asked = manage::cancel_all(conn, &Schema::default(), &bills, Cancel::Soft, "ops", "enough")?;
            Ok(usize::try_from(asked).unwrap())
        }),
        ("requeue", |conn, _| {
            let cancelled = Filter::new().kind("bill").state(State::Cancelled);
            let requeued = manage::requeue_all(conn, &Schema::default(), &cancelled, "ops")?;
            Ok(usize::try_from(requeued.requeued).unwrap())
        }),
        ("purge", |conn, turn| {
            let state = [State::Cancelled, State::Completed][usize::try_from(turn % 2).unwrap()];
            let purged = manage::purge(conn, &Schema::default(), state, Duration::from_millis(20))?;
            Ok(usize::try_from(purged).unwrap())
        }),
    ]
}

/// Who waited for whom.
fn details(error: &Error) -> String {
    match error {
        Error::DatabaseError(_, info) => info.details().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

/// Statements on many rows take them in one order, so that none of them is the victim of a deadlock. (On SQLite there is
/// one write lock, and whoever has that waits for nobody.)
#[test]
fn statements_on_many_rows_at_once_do_not_deadlock() {
    let db = database();
    drop(migrated(&db));
    let (failed, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let parts = parts::<PgConnection>();
    let rows = parts.map(|(what, _)| (what, AtomicUsize::new(0)));
    let since = Instant::now();
    std::thread::scope(|scope| {
        for ((what, part), (_, rows)) in parts.iter().zip(&rows) {
            // By hand they run on a connection of the application's own, with its settings.
            let by_hand = ["enqueue", "cancel", "ask to cancel", "requeue", "purge"].contains(what);
            for _ in 0..2 {
                let mut conn = match by_hand {
                    true => db.connect(),
                    false => Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap(),
                };
                let (failed, stop) = (&failed, &stop);
                scope.spawn(move || {
                    for turn in (0..).take_while(|_| !stop.load(Ordering::Acquire)) {
                        match part(&mut conn, turn) {
                            Ok(more) => drop(rows.fetch_add(more, Ordering::AcqRel)),
                            Err(error) => failed
                                .lock()
                                .unwrap()
                                .push(format!("{what}: {error} {}", details(&error))),
                        }
                    }
                });
            }
        }
        let lasts = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(SOON * 5, "each has had rows for a while", || {
                since.elapsed() > LASTS && rows.iter().all(|(_, rows)| rows.load(Ordering::Acquire) > 0)
            });
        }));
        stop.store(true, Ordering::Release);
        assert!(lasts.is_ok(), "{rows:?}");
    });
    assert_eq!(failed.into_inner().unwrap(), Vec::<String>::new());
}
