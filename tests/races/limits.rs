//! Limits under races: several workers, some of which are dropped in the middle of their work, and leases that expire
//! under handlers which still run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{EnqueueOptions, Enqueued, Handler, Job, LeaseGuard, Outcome, Running, Schema, Worker, testing};
use leasehold_tests::jobs::{Effects, SOON, prepare};
use leasehold_tests::{TestDb, conformance, eventually, race_time};
use serde::{Deserialize, Serialize};

/// For each second.
const JOBS: i64 = 100;
const TENANTS: i64 = 4;

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(
    kind = "crowd",
    concurrency(by = "tenant", max = 3),
    max_attempts = 1000000,
    backoff = "fixed(5ms)",
    lease = "5s"
)]
struct Crowd {
    tenant: i64,
    n: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(
    kind = "line",
    serial(by = "tenant"),
    max_attempts = 1000000,
    backoff = "fixed(5ms)",
    lease = "5s"
)]
struct Line {
    tenant: i64,
    n: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(
    kind = "pulse",
    rate(by = "tenant", max = 10, per = "500ms"),
    max_attempts = 1000000,
    backoff = "fixed(5ms)",
    lease = "5s"
)]
struct Pulse {
    tenant: i64,
    n: i64,
}

macro_rules! notes_itself {
    ($($J:ty),*) => {$(
        impl<C: Effects> Handler<C> for $J {
            fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
                // Work outside of the database.
                std::thread::sleep(Duration::from_millis(self.n.unsigned_abs() % 4));
                if self.n % 17 == 0 && lease.attempt() == 1 {
                    return Err(leasehold::JobError::retry("the first attempt fails"));
                }
                lease.commit(|tx| tx.note(self.n).map(drop).map_err(Into::into))
            }
        }
    )*};
}
notes_itself!(Crowd, Line, Pulse);

/// What snapshots of the rows show.
#[derive(Default)]
struct Seen {
    most: BTreeMap<String, i64>,
    /// Eleven starts of one key within the period of ten.
    too_close: Vec<Vec<i64>>,
}

impl Seen {
    fn look<Db: TestDb>(&mut self, db: &mut Db) {
        let admitted = "SELECT kind || ' ' || count(*) FROM leasehold.jobs
            WHERE limit_key IS NOT NULL AND blocked_by IS NULL AND CAST(scheduled AS integer) = 0 GROUP BY kind, limit_key";
        for line in db.texts(admitted).into_iter().flatten() {
            let (kind, count) = line.split_once(' ').unwrap();
            let most = self.most.entry(kind.to_owned()).or_default();
            *most = (*most).max(count.parse().unwrap());
        }
        let us = if Db::BACKEND == "postgres" {
            "CAST(extract(epoch FROM at) * 1000000 AS bigint)"
        } else {
            "(at * 1000)"
        };
        let starts = format!("SELECT limit_key || ' ' || {us} FROM leasehold.starts");
        // Each snapshot by itself: the start of a job that was released before its handler began is taken back.
        let mut keys: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for line in db.texts(&starts).into_iter().flatten() {
            let (key, at) = line.split_once(' ').unwrap();
            keys.entry(key.to_owned()).or_default().push(at.parse().unwrap());
        }
        for mut starts in keys.into_values() {
            starts.sort_unstable();
            let too_close = starts.windows(11).filter(|eleven| eleven[10] - eleven[0] < 500_000);
            self.too_close.extend(too_close.map(<[i64]>::to_vec));
        }
    }
}

fn worker<C: Effects>(url: &str, number: u64) -> Running<C, ()> {
    let worker = Worker::<C, ()>::new(url, ())
        .threads(2)
        .poll_interval(Duration::from_millis(100))
        .sweep_interval(Duration::from_millis(50));
    let worker = match number % 3 {
        0 => worker,
        1 => worker.fixed_batch(5),
        _ => worker.unbatched(),
    };
    worker
        .register::<Crowd>()
        .register::<Line>()
        .register::<Pulse>()
        .start()
        .unwrap()
}

conformance!(
    fn limits_hold_while_workers_die_and_leases_expire(db: &mut Db) {
        let mut conn = prepare(db);
        if Db::BACKEND == "postgres" {
            db.sql("ALTER TABLE effects ADD COLUMN place bigserial");
        }
        let seconds = race_time().as_secs();
        let (jobs, options) = (JOBS * i64::try_from(seconds).unwrap(), EnqueueOptions::new());
        let crowds: Vec<Crowd> = (0..jobs).map(|n| Crowd { tenant: n % TENANTS, n }).collect();
        let lines: Vec<Line> = (0..jobs)
            .map(|n| Line {
                tenant: n % TENANTS,
                n: n + 1_000_000,
            })
            .collect();
        let pulses: Vec<Pulse> = (0..jobs / 2)
            .map(|n| Pulse {
                tenant: n % TENANTS,
                n: n + 2_000_000,
            })
            .collect();
        let mut ids: Vec<i64> = Vec::new();
        ids.extend(
            Crowd::enqueue_all(&crowds, &mut conn, &options)
                .unwrap()
                .iter()
                .map(Enqueued::id),
        );
        ids.extend(
            Line::enqueue_all(&lines, &mut conn, &options)
                .unwrap()
                .iter()
                .map(Enqueued::id),
        );
        ids.extend(
            Pulse::enqueue_all(&pulses, &mut conn, &options)
                .unwrap()
                .iter()
                .map(Enqueued::id),
        );

        let url = db.url();
        let mut workers: Vec<_> = (0..4).map(|number| worker::<Connection>(&url, number)).collect();
        let done = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut seen = Seen::default();
                while !done.load(Ordering::Acquire) {
                    seen.look(db);
                    std::thread::sleep(Duration::from_millis(5));
                }
                seen
            });
            let until = Instant::now() + Duration::from_secs(seconds);
            let mut round = 0;
            while Instant::now() < until {
                round += 1;
                // Its handlers run on, fenced; or they are swept under a worker that does not know it yet.
                let victim = usize::try_from(round % 4).unwrap();
                drop(workers.remove(victim));
                workers.insert(victim, worker(&url, round));
                for id in ids.iter().filter(|id| (**id).unsigned_abs() % 5 == round % 5) {
                    testing::expire_lease(&mut conn, &Schema::default(), *id).unwrap();
                }
            }
            assert!(round > 1);
            eventually(SOON * 2, "all are done", || {
                leasehold::inspect::counts(&mut conn, &Schema::default())
                    .unwrap()
                    .iter()
                    .all(|count| count.state == leasehold::inspect::State::Completed)
            });
            done.store(true, Ordering::Release);
            watch.join().unwrap()
        });
        drop(workers);

        let order = if Db::BACKEND == "postgres" { "place" } else { "rowid" };
        let noted: Vec<i64> = db
            .texts(&format!("SELECT CAST(n AS text) FROM effects ORDER BY {order}"))
            .into_iter()
            .map(|n| n.unwrap().parse().unwrap())
            .collect();
        assert_eq!(noted.len(), ids.len());
        assert_eq!(noted.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for tenant in 0..TENANTS {
            let of_tenant = |n: &&i64| (1_000_000..2_000_000).contains(*n) && (*n - 1_000_000) % TENANTS == tenant;
            assert!(noted.iter().filter(of_tenant).is_sorted(), "tenant {tenant}: {noted:?}");
        }
        assert!(seen.most["crowd"] <= 3 && seen.most["line"] <= 1, "{:?}", seen.most);
        assert!(seen.too_close.is_empty(), "{:?}", seen.too_close);
    }
);
