//! Many threads enqueue, claim, end and retry jobs of a few keys at once. On SQLite they queue for the write lock as the
//! threads of a worker do: the lock itself is not fair, and patience would run out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use diesel::result::Error;
use leasehold::__private::Fence;
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job, OnConflict};
use leasehold_tests::race_time;
use serde::{Deserialize, Serialize};

use crate::support::*;

const THREADS: u64 = 8;
const KEYS: u64 = 3;

/// One for each key that is ready or running.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "open", max_attempts = 1000000, unique(by = "key", states = "ready, running"))]
struct Open {
    key: u64,
    n: u64,
}

/// One for each key that is ready, with the newest payload.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "newest", unique(by = "key", on_conflict = "replace"))]
struct Newest {
    key: u64,
    n: u64,
}

/// A small generator of its own for each thread: which thread does what is the schedule's chance anyway.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What the enqueues of all threads were answered.
#[derive(Default)]
struct Answers {
    new: BTreeSet<i64>,
    other: BTreeSet<i64>,
}

/// Enqueues one job in some way: alone, in a transaction, or in one that is rolled back.
fn enqueue<C: Backend>(conn: &mut C, random: &mut Random, answers: &Mutex<Answers>) {
    let job = Open {
        key: random.below(KEYS),
        n: random.below(1000),
    };
    let action = match random.below(4) {
        0 => OnConflict::Replace,
        1 => OnConflict::Reject,
        2 => OnConflict::Reschedule,
        _ => OnConflict::Keep,
    };
    let options = EnqueueOptions::new().on_conflict(action);
    let undone = random.below(5) == 0;
    let mut answer = None;
    let enqueued = match random.below(2) == 0 && !undone {
        true => job.enqueue_with(conn, &options).map(|enqueued| answer = Some(enqueued)),
        false => conn.transaction(|tx| {
            answer = Some(job.enqueue_with(tx, &options)?);
            match undone {
                true => Err(EnqueueError::Database(Error::RollbackTransaction)),
                false => Ok(()),
            }
        }),
    };
    let mut answers = answers.lock().unwrap();
    match (enqueued, answer) {
        (Ok(()), Some(Enqueued::New { id })) => {
            answers.new.insert(id);
        }
        (Ok(()), Some(other)) => {
            answers.other.insert(other.id());
        }
        (Err(EnqueueError::UniqueConflict { id }), _) => {
            answers.other.insert(id);
        }
        (Err(EnqueueError::Database(Error::RollbackTransaction)), _) => {}
        (Err(error), _) => panic!("{error}"),
        (Ok(()), None) => unreachable!("an enqueue that succeeds has an answer"),
    }
}

/// Claims up to three jobs and ends them, or puts them back.
fn work<C: Backend>(conn: &mut C, random: &mut Random) {
    let schema = default_schema();
    let (rows, token) = claim_served(conn, &[served("default", "open", 1)], 3);
    let fences: Vec<Fence> = rows.iter().map(|row| fence_of(row, token)).collect();
    if random.below(3) == 0 {
        let ended = conn.finish(&schema, &fences).unwrap();
        assert_eq!(ended.len(), fences.len());
        return;
    }
    for fence in fences {
        let changed = match random.below(4) {
            0 => conn.finish(&schema, &[fence]).unwrap().len(),
            1 => conn.release(&schema, &[fence]).unwrap().len(),
            2 => {
                let how = End {
                    state: "discarded",
                    reason: None,
                    takes_away: false,
                    error: None,
                };
                conn.end(&schema, &fence, &how).unwrap()
            }
            _ => {
                let how = PutBack {
                    delay_ms: 0,
                    uses_attempt: true,
                    takes_away: false,
                    error: None,
                };
                conn.put_back(&schema, &fence, &how).unwrap()
            }
        };
        assert_eq!(changed, 1);
    }
}

const TWICE: &str =
    "SELECT count(*) FROM (SELECT 1 FROM leasehold.jobs GROUP BY unique_key HAVING count(*) > 1) AS twice";

conformance!(
    fn no_two_open_jobs_ever_have_one_key_and_none_is_missing(db: &mut Db) {
        migrated(db);
        let answers = Mutex::default();
        let (over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let mut conn = open(db);
                let (answers, over, url) = (&answers, &over, db.url());
                scope.spawn(move || {
                    let mut random = Random(seed);
                    let gate = Connection::write_gate(&url);
                    while !over.load(Ordering::Relaxed) {
                        gate.hold(|| match random.below(2) {
                            0 => enqueue(&mut conn, &mut random, answers),
                            _ => work(&mut conn, &mut random),
                        });
                    }
                });
            }
            let end = Instant::now() + race_time();
            while Instant::now() < end {
                let twice = db.integer(TWICE);
                looks.fetch_add(1, Ordering::Relaxed);
                if twice > 0 {
                    over.store(true, Ordering::Relaxed);
                }
                assert_eq!(twice, 0, "keys with two open jobs");
            }
            over.store(true, Ordering::Relaxed);
        });
        let answers = answers.into_inner().unwrap();
        let all = db.texts(
            "SELECT CAST(id AS text) FROM leasehold.jobs UNION ALL SELECT CAST(id AS text) FROM leasehold.finished_jobs",
        );
        let stored: BTreeSet<i64> = all.iter().flatten().map(|id| id.parse().unwrap()).collect();
        assert_eq!(all.len(), stored.len(), "no job is in both tables");
        assert_eq!(
            stored, answers.new,
            "what was answered as new is there, and nothing else"
        );
        assert!(answers.other.is_subset(&stored), "what was answered with exists");
        assert!(answers.new.len() > 3 && answers.other.len() > 3 && looks.into_inner() > 0);
    }
);

conformance!(
    fn the_newest_payload_of_a_key_always_runs_last(db: &mut Db) {
        migrated(db);
        let runs: Mutex<BTreeMap<u64, Vec<u64>>> = Mutex::default();
        let over = AtomicBool::new(false);
        let (updated, enqueued) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for key in 0..KEYS {
                let mut conn = open(db);
                let (over, updated, enqueued, url) = (&over, &updated, &enqueued, db.url());
                scope.spawn(move || {
                    let mut n = 0;
                    let gate = Connection::write_gate(&url);
                    while !over.load(Ordering::Relaxed) {
                        n += 1;
                        let answer = gate.hold(|| Newest { key, n }.enqueue(&mut conn).unwrap());
                        assert!(!matches!(answer, Enqueued::Existing { .. }));
                        enqueued.store(n, Ordering::Relaxed);
                        updated.fetch_add(u64::from(!answer.is_new()), Ordering::Relaxed);
                    }
                    // The last word of this key, after which nothing is enqueued.
                    gate.hold(|| Newest { key, n: u64::MAX }.enqueue(&mut conn).unwrap());
                });
            }
            // Fewer than enqueue, so that jobs wait long enough to be replaced.
            for _ in 1..KEYS {
                let mut conn = open(db);
                let (over, runs, url) = (&over, &runs, db.url());
                scope.spawn(move || {
                    let gate = Connection::write_gate(&url);
                    while !over.load(Ordering::Relaxed) {
                        gate.hold(|| run_newest(&mut conn, runs));
                    }
                });
            }
            let end = Instant::now() + race_time();
            let ready = TWICE.replace("GROUP BY", "WHERE state = 'ready' GROUP BY");
            while Instant::now() < end {
                let twice = db.integer(&ready);
                if twice > 0 {
                    over.store(true, Ordering::Relaxed);
                }
                assert_eq!(twice, 0, "keys with two ready jobs");
            }
            over.store(true, Ordering::Relaxed);
        });
        let mut conn = open(db);
        while run_newest(&mut conn, &runs) > 0 {}
        for (key, runs) in runs.into_inner().unwrap() {
            assert!(runs.is_sorted(), "key {key} went back: {runs:?}");
            assert_eq!(runs.last(), Some(&u64::MAX), "the last word of key {key}");
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        assert!(updated.into_inner() > 0 && enqueued.into_inner() > 1);
    }
);

/// Claims one that is ready, notes its payload and ends it; how many there were.
fn run_newest<C: Backend>(conn: &mut C, runs: &Mutex<BTreeMap<u64, Vec<u64>>>) -> usize {
    // Noted under one lock with the claim, so that the order of the notes is that of the claims.
    let mut noted = runs.lock().unwrap();
    let (rows, token) = claim_served(conn, &[served("default", "newest", 1)], 1);
    for row in &rows {
        let job: Newest = serde_json::from_str(&row.payload).unwrap();
        noted.entry(job.key).or_default().push(job.n);
    }
    drop(noted);
    let fences: Vec<Fence> = rows.iter().map(|row| fence_of(row, token)).collect();
    let ended = conn.finish(&default_schema(), &fences).unwrap();
    assert_eq!(ended.len(), fences.len());
    rows.len()
}
