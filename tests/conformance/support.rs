//! What the tests share: a job whose handler a test gives as a closure, claims, and rows as texts.

use std::time::Duration;

pub(crate) use diesel::Connection as _;
pub(crate) use diesel::connection::SimpleConnection as _;
use leasehold::__private::Fence;
pub(crate) use leasehold::__private::*;
use leasehold::testing::Runner;
use leasehold::{Counts, EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Schema, migrate};
pub(crate) use leasehold_tests::{TestDb, conformance};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A job whose handler is the runner's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "note", lease = "1m", backoff = "fixed(1m)")]
pub(crate) struct Note {
    pub(crate) text: String,
}

pub(crate) fn note(text: impl Into<String>) -> Note {
    Note { text: text.into() }
}

impl<C: Backend, F> Handler<C, F> for Note
where
    F: for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
{
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &F) -> Outcome<'j> {
        app(self, lease)
    }
}

/// Runs the notes that are due through `handler`.
#[track_caller]
pub(crate) fn run<C: Backend>(
    conn: &mut C,
    handler: impl for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
) -> Counts {
    Runner::<C, _>::new(handler).register::<Note>().drain(conn).unwrap()
}

/// Enqueues one note and runs it through `handler`; its id.
#[track_caller]
pub(crate) fn run_new<C: Backend>(
    conn: &mut C,
    handler: impl for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
) -> (i64, Counts) {
    let id = note("once").enqueue(conn).unwrap().id();
    (id, run(conn, handler))
}

/// The queue's tables and an application's table `written`; a connection as the runtime opens it.
pub(crate) fn migrated<D: TestDb>(db: &mut D) -> D::Connection {
    let mut conn = open(db);
    migrate(&mut conn).unwrap();
    db.sql("CREATE TABLE written (id integer PRIMARY KEY)");
    conn
}

pub(crate) fn open<D: TestDb>(db: &D) -> D::Connection {
    Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap()
}

pub(crate) fn default_schema() -> Schema {
    Schema::default()
}

pub(crate) fn served(queue: &str, kind: &str, version: i32) -> Served {
    Served {
        queue: queue.to_owned(),
        kind: kind.to_owned(),
        version,
    }
}

/// Claims up to `limit` jobs of what is served; the rows in id order, and the token.
#[track_caller]
pub(crate) fn claim_served<C: Backend>(conn: &mut C, serves: &[Served], limit: i64) -> (Vec<ClaimedRow>, Uuid) {
    let request = request(serves, limit);
    let mut rows = conn.claim(&default_schema(), &request).unwrap();
    rows.sort_by_key(|row| row.id);
    (rows, request.lease_token)
}

pub(crate) fn request(serves: &[Served], limit: i64) -> ClaimRequest<'_> {
    ClaimRequest {
        serves,
        limit,
        lease_token: Uuid::new_v4(),
        worker: Uuid::new_v4(),
        begun: true,
        counted: &[],
        oldest: false,
        behind: &[],
    }
}

/// Claims every note that is due, in id order.
#[track_caller]
pub(crate) fn claim_notes<C: Backend>(conn: &mut C) -> Vec<Fence> {
    let (rows, lease_token) = claim_served(conn, &[served("default", "note", 1)], 1000);
    rows.iter().map(|row| fence_of(row, lease_token)).collect()
}

pub(crate) fn fence_of(row: &ClaimedRow, lease_token: Uuid) -> Fence {
    Fence {
        id: row.id,
        generation: row.generation,
        lease_token,
    }
}

/// Enqueues `count` notes and claims them, in id order.
#[track_caller]
pub(crate) fn claimed_many<C: Backend>(conn: &mut C, count: usize) -> Vec<Fence> {
    let notes: Vec<Note> = (0..count).map(|number| note(number.to_string())).collect();
    Job::enqueue_all(&notes, conn, &EnqueueOptions::new()).unwrap();
    let fences = claim_notes(conn);
    assert_eq!(fences.len(), count);
    fences
}

/// Enqueues one note and claims it.
#[track_caller]
pub(crate) fn claimed<C: Backend>(conn: &mut C) -> Fence {
    claimed_many(conn, 1)[0]
}

/// Fences that differ from `fence` in one thing each.
pub(crate) fn near_misses(fence: &Fence) -> [Fence; 4] {
    [
        Fence {
            generation: fence.generation + 1,
            ..*fence
        },
        Fence {
            generation: fence.generation - 1,
            ..*fence
        },
        Fence {
            lease_token: Uuid::new_v4(),
            ..*fence
        },
        Fence {
            id: fence.id + 1000,
            ..*fence
        },
    ]
}

/// The columns that a job keeps for its whole life, wherever it is.
const KEPT: &str = "id || '|' || queue || '|' || kind || '|' || version || '|' || CAST(payload AS text) || '|' || priority \
    || '|' || CAST(run_at AS text) || '|' || max_attempts || '|' || lease_ms || '|' || idempotency_key || '|' \
    || coalesce(unique_key, '-') || '|' || unique_states || '|' || coalesce(limit_key, '-') || '|' || limit_rank || '|' \
    || coalesce(CAST(batch_id AS text), '-') || '|' || CAST(created_at AS text)";

/// All columns of a job's row in `jobs`, `None` when it is not there.
pub(crate) fn row<D: TestDb>(db: &mut D, id: i64) -> Option<String> {
    let all = format!(
        "SELECT {KEPT} || '|' || state || '|' || attempt || '|' || generation || '|' || coalesce(CAST(lease_token AS text), '-') \
         || '|' || coalesce(CAST(lease_until AS text), '-') || '|' || coalesce(CAST(worker AS text), '-') \
         || '|' || CAST(begun AS integer) || '|' || CAST(scheduled AS integer) \
         || '|' || coalesce(CAST(cancel_requested_at AS text), '-') FROM leasehold.jobs WHERE id = {id}"
    );
    db.texts(&all).pop().flatten()
}

/// What a job keeps, with attempt and token, from `table`.
pub(crate) fn kept<D: TestDb>(db: &mut D, table: &str, id: i64) -> Option<String> {
    let text = format!(
        "SELECT {KEPT} || '|' || attempt || '|' || coalesce(CAST(lease_token AS text), '-') FROM {table} WHERE id = {id}"
    );
    db.texts(&text).pop().flatten()
}

/// One line about a job wherever it is: `ready generation=1 attempt=1`, and its reason if it has one.
#[track_caller]
pub(crate) fn standing<D: TestDb>(db: &mut D, id: i64) -> String {
    let text = format!(
        "SELECT state || ' generation=' || generation || ' attempt=' || attempt FROM leasehold.jobs WHERE id = {id} \
         UNION ALL \
         SELECT state || ' generation=' || generation || ' attempt=' || attempt || coalesce(': ' || reason, '') \
         FROM leasehold.finished_jobs WHERE id = {id}"
    );
    db.text(&text).unwrap()
}

/// Whether a row of `jobs` has nothing of a lease but its token.
#[track_caller]
pub(crate) fn is_free<D: TestDb>(db: &mut D, id: i64) -> bool {
    let text = format!(
        "SELECT CASE WHEN worker IS NULL AND lease_until IS NULL AND CAST(begun AS integer) = 0 THEN 1 ELSE 0 END \
         FROM leasehold.jobs WHERE id = {id}"
    );
    db.integer(&text) == 1
}

/// The rows of the application's table, in order.
pub(crate) fn written<D: TestDb>(db: &mut D) -> Vec<i64> {
    let ids = db.texts("SELECT CAST(id AS text) FROM written ORDER BY id");
    ids.into_iter().map(|id| id.unwrap().parse().unwrap()).collect()
}

pub(crate) fn write<C: Backend>(tx: &mut C, id: i64) -> diesel::QueryResult<()> {
    tx.batch_execute(&format!("INSERT INTO written VALUES ({id})"))
}

/// How far the time `column` of a job lies in the future, by this machine's clock, which is the database's.
#[track_caller]
pub(crate) fn from_now<D: TestDb>(db: &mut D, table: &str, column: &str, filter: &str) -> Duration {
    let ms = if D::BACKEND == "postgres" {
        format!("extract(epoch FROM {column} - clock_timestamp()) * 1000")
    } else {
        format!("{column} - (julianday('now') - 2440587.5) * 86400000")
    };
    let left = db.integer(&format!("SELECT {ms} FROM {table} WHERE {filter}"));
    Duration::from_millis(left.try_into().expect("the time is to come"))
}

/// How long a job that is put back waits.
#[track_caller]
pub(crate) fn waits<D: TestDb>(db: &mut D, id: i64) -> Duration {
    from_now(db, "leasehold.jobs", "run_at", &format!("id = {id}"))
}

/// Whether `time` is `expected` with ten seconds for a slow machine.
pub(crate) fn is_about(time: Duration, expected: Duration) -> bool {
    time <= expected && time + Duration::from_secs(10) >= expected
}

/// Takes a job from its worker as a sweep does that finds the lease expired; the new fence if it was claimed again.
#[track_caller]
pub(crate) fn take_over<C: Backend>(conn: &mut C, id: i64) -> Option<Fence> {
    let schema = default_schema();
    assert_eq!(conn.expire_lease(&schema, id).unwrap(), 1);
    // The sweep asks whether the end is past, in whole milliseconds on SQLite.
    assert!(conn.sweep(&schema, 100).unwrap().iter().any(|swept| swept.id == id));
    claim_notes(conn).into_iter().find(|fence| fence.id == id)
}
