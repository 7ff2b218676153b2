//! Jobs as the library's own statements write them.

use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::QueryResult;
use leasehold::__private::Fence;
use leasehold::__private::{self as private, *};
use leasehold::{Backend, Isolation, Schema, Unique};
use leasehold_tests::{TestDb, eventually};
use uuid::Uuid;

pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The tables, one of the business's, and a connection of the queue's own.
pub(crate) fn migrated<Db: TestDb>(db: &mut Db) -> Db::Connection {
    let conn = control(db);
    leasehold::migrate(&mut db.connect()).unwrap();
    db.sql("CREATE TABLE business (writer text NOT NULL)");
    conn
}

/// Another connection of the queue's own.
pub(crate) fn control<Db: TestDb>(db: &Db) -> Db::Connection {
    Db::Connection::connect(&db.url(), &ConnectionSettings::default()).unwrap()
}

pub(crate) fn new_job(lease_ms: i64) -> NewJob {
    NewJob {
        queue: "default".to_owned(),
        kind: "test".into(),
        version: 1,
        payload: "{}".to_owned(),
        priority: 0,
        run_at: RunAt::After(0),
        max_attempts: 5,
        lease_ms,
        idempotency_key: None,
        remember_ms: 60_000,
        unique_key: None,
        unique: Unique::default(),
        expires_ms: None,
        limit_key: None,
        limit_rank: 0,
        batch_id: None,
        waits: false,
        awaited: false,
    }
}

pub(crate) fn enqueue<C: Backend>(conn: &mut C, jobs: usize) -> Vec<i64> {
    conn.insert(&Schema::default(), &vec![new_job(60_000); jobs]).unwrap()
}

pub(crate) fn serves() -> Vec<Served> {
    vec![Served {
        queue: "default".to_owned(),
        kind: "test".to_owned(),
        version: 1,
    }]
}

fn request(serves: &[Served], limit: i64) -> ClaimRequest<'_> {
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

/// The claim as a worker makes it.
pub(crate) fn try_claim<C: Backend>(conn: &mut C, limit: i64) -> QueryResult<Found> {
    private::claim(conn, &Schema::default(), &request(&serves(), limit))
}

/// The claim's statement alone, also inside of a transaction.
pub(crate) fn claim_statement<C: Backend>(conn: &mut C, limit: i64) -> QueryResult<Vec<Fence>> {
    let serves = serves();
    let request = request(&serves, limit);
    let rows = conn.claim(&Schema::default(), &request)?;
    Ok(rows.iter().map(|row| fence(row, request.lease_token)).collect())
}

fn fence(row: &ClaimedRow, lease_token: Uuid) -> Fence {
    Fence {
        id: row.id,
        generation: row.generation,
        lease_token,
    }
}

/// Claims one job.
#[track_caller]
pub(crate) fn claim<C: Backend>(conn: &mut C) -> Fence {
    let fences = claim_statement(conn, 1).unwrap();
    assert_eq!(fences.len(), 1, "there is one job to claim");
    fences[0]
}

/// The lease runs out and is taken back, as the maintenance of any worker does it.
#[track_caller]
pub(crate) fn sweep_expired<C: Backend>(conn: &mut C, id: i64) {
    // Its worker may renew it in between.
    eventually(SOON, "the lease is expired and swept", || {
        conn.expire_lease(&Schema::default(), id).unwrap();
        // A worker's own sweep may be the one.
        conn.sweep(&Schema::default(), 10).unwrap();
        let row = conn.ownership(&Schema::default(), id).unwrap();
        row.is_some_and(|row| row.state == "ready")
    });
}

/// The lease of a worker Z runs out and B claims the job: the row is `running` under B, so only the fence can refuse Z.
#[track_caller]
pub(crate) fn take_over<C: Backend>(conn: &mut C, id: i64) -> Fence {
    sweep_expired(conn, id);
    let owner = claim(conn);
    assert_eq!(owner.id, id);
    owner
}

/// The completion in a commit of its own, as [`leasehold::LeaseGuard::commit`] drives it.
pub(crate) fn complete<C: Backend>(conn: &mut C, fence: &Fence, strict: bool) -> Completion {
    begin_commit(conn, None);
    let completion = conn.complete(&Schema::default(), fence, strict).unwrap();
    match completion {
        Completion::Completed => AnsiTransactionManager::commit_transaction(conn).unwrap(),
        _ => roll_back(conn),
    }
    completion
}

pub(crate) fn begin_commit<C: Backend>(conn: &mut C, isolation: Option<Isolation>) {
    conn.begin_commit(isolation, &ConnectionSettings::default()).unwrap();
}

pub(crate) fn roll_back<C: Backend>(conn: &mut C) {
    AnsiTransactionManager::rollback_transaction(conn).unwrap();
}

/// `state/generation` of a job, wherever it is now.
#[track_caller]
pub(crate) fn standing<Db: TestDb>(db: &mut Db, id: i64) -> String {
    let row = control(db).ownership(&Schema::default(), id).unwrap();
    row.map_or_else(|| "none".to_owned(), |row| format!("{}/{}", row.state, row.generation))
}

/// Milliseconds since 1970 by the database's clock.
pub(crate) fn clock_ms<Db: TestDb>(db: &mut Db) -> i64 {
    db.integer(match Db::BACKEND {
        "sqlite" => "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        _ => "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)",
    })
}

pub(crate) fn lease_until_ms<Db: TestDb>(db: &mut Db, id: i64) -> i64 {
    let column = match Db::BACKEND {
        "sqlite" => "lease_until",
        _ => "floor(extract(epoch FROM lease_until) * 1000)",
    };
    db.integer(&format!("SELECT {column} FROM leasehold.jobs WHERE id = {id}"))
}
