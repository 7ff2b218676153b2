//! The database, and what the workers of a replay have been told.

use std::collections::HashMap;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Uuid as SqlUuid};
use leasehold::__private::{CommitStatements, Connect, ConnectionSettings, Fence, Ownership, Served};
use leasehold::{Job, Schema};
use leasehold_tests::{TestDb, postgres};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::State;

/// What a crash may take back.
const TABLES: [&str; 4] = [
    "leasehold.jobs",
    "leasehold.finished_jobs",
    "leasehold.job_errors",
    "effects",
];

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "first", lease = "1h", max_attempts = 1000)]
struct First {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "second", lease = "1h", max_attempts = 1000)]
struct Second {}

pub(super) struct Database {
    db: postgres::Database,
    pub(super) conn: PgConnection,
    pub(super) ids: Vec<i64>,
    /// What each worker's process wrote into its claims.
    pub(super) processes: Vec<Uuid>,
    pub(super) claiming: Vec<Option<Uuid>>,
    leases: HashMap<(usize, usize), Fence>,
    /// Commits under way, each in its session.
    pub(super) sent: HashMap<(usize, usize), PgConnection>,
    /// Sessions that have nothing to do.
    pub(super) idle: Vec<PgConnection>,
}

/// A row as it is, wherever it is.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) generation: i64,
    pub(super) lease_token: Option<Uuid>,
    pub(super) expired: bool,
    pub(super) cancel_requested: bool,
    pub(super) effects: i64,
    pub(super) effect_is_owners: bool,
}

#[derive(QueryableByName)]
struct Rest {
    #[diesel(sql_type = Bool)]
    expired: bool,
    #[diesel(sql_type = Bool)]
    cancel_requested: bool,
    #[diesel(sql_type = BigInt)]
    effects: i64,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    effect_by: Option<Uuid>,
}

const REST: &str = "
    SELECT coalesce(j.lease_until <= clock_timestamp(), false) AS expired,
        coalesce(j.cancel_requested_at IS NOT NULL, false) AS cancel_requested,
        (SELECT count(*) FROM effects WHERE job = asked.id) AS effects,
        (SELECT lease_token FROM effects WHERE job = asked.id LIMIT 1) AS effect_by
    FROM (SELECT $1 AS id) AS asked LEFT JOIN leasehold.jobs AS j ON j.id = asked.id
";

impl Database {
    pub(super) fn new(jobs: usize, processes: &[u8]) -> Self {
        let mut db = postgres::database();
        leasehold::migrate(&mut db.connect()).unwrap();
        db.sql("CREATE TABLE effects (job bigint NOT NULL, lease_token uuid NOT NULL)");
        for table in TABLES {
            db.sql(&format!("CREATE TABLE {} AS TABLE {table} WITH NO DATA", saved(table)));
        }
        // Nothing here is lost in earnest, and flushes take long.
        db.sql("SET synchronous_commit = off");
        let mut conn = PgConnection::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        let first = First {}.enqueue(&mut conn).unwrap().id();
        let second = (jobs > 1).then(|| Second {}.enqueue(&mut conn).unwrap().id());
        let process = |number: &u8| Uuid::from_u128(u128::from(*number));
        Self {
            db,
            conn,
            ids: [Some(first), second].into_iter().flatten().collect(),
            processes: processes.iter().map(process).collect(),
            claiming: vec![None; processes.len()],
            leases: HashMap::new(),
            sent: HashMap::new(),
            idle: Vec::new(),
        }
    }

    /// Another connection of the queue's own.
    pub(super) fn session(&mut self) -> PgConnection {
        let another = || PgConnection::connect(&self.db.url(), &ConnectionSettings::default()).unwrap();
        self.idle.pop().unwrap_or_else(another)
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = &Fence> {
        self.leases.values()
    }

    #[track_caller]
    pub(super) fn lease(&self, worker: usize, job: usize) -> Fence {
        self.leases[&(worker, job)]
    }

    pub(super) fn told(&mut self, worker: usize, lease: Fence) {
        let job = self.ids.iter().position(|id| *id == lease.id).unwrap();
        self.leases.insert((worker, job), lease);
    }

    pub(super) fn forget(&mut self, worker: usize) {
        self.claiming[worker] = None;
        self.leases.retain(|(of, _), _| *of != worker);
    }

    pub(super) fn ownership(&mut self, job: usize) -> Option<Ownership> {
        self.conn.ownership(&Schema::default(), self.ids[job]).unwrap()
    }

    pub(super) fn row(&mut self, job: usize) -> Row {
        let ownership = self.ownership(job).unwrap();
        let rest: Rest = diesel::sql_query(REST)
            .bind::<BigInt, _>(self.ids[job])
            .get_result(&mut self.conn)
            .unwrap();
        let lease_token = ownership.lease_token.map(|token| token.parse().unwrap());
        Row {
            state: match ownership.state.as_str() {
                "ready" => State::Ready,
                "running" => State::Running,
                "completed" => State::Completed,
                "discarded" => State::Discarded,
                _ => State::Cancelled,
            },
            generation: ownership.generation,
            lease_token,
            expired: rest.expired,
            cancel_requested: rest.cancel_requested,
            effects: rest.effects,
            effect_is_owners: rest.effect_by.is_some() && rest.effect_by == lease_token,
        }
    }

    /// What is durable from now on.
    pub(super) fn save(&mut self) {
        let save = |table| format!("DELETE FROM {0}; INSERT INTO {0} TABLE {table};", saved(table));
        self.db.sql(&format!("BEGIN; {} COMMIT", TABLES.map(save).concat()));
    }

    /// Loses what came after that.
    pub(super) fn crash(&mut self) {
        self.sent.clear();
        let restore = |table| format!("DELETE FROM {table}; INSERT INTO {table} TABLE {};", saved(table));
        self.db.sql(&format!("BEGIN; {} COMMIT", TABLES.map(restore).concat()));
    }

    /// The business write of a commit.
    pub(super) fn write_effect(conn: &mut PgConnection, lease: &Fence) {
        let Fence { id, lease_token, .. } = lease;
        let text = format!("INSERT INTO effects VALUES ({id}, '{lease_token}')");
        conn.batch_execute(&text).unwrap();
    }
}

fn saved(table: &str) -> String {
    format!("saved_{}", table.trim_start_matches("leasehold."))
}

/// What a claim asks for that wants these jobs: each is of a kind of its own.
pub(super) fn serves(jobs: impl IntoIterator<Item = usize>) -> Vec<Served> {
    let serves = jobs.into_iter().map(|job| Served {
        queue: "default".to_owned(),
        kind: [First::KIND, Second::KIND][job].to_owned(),
        version: 1,
    });
    serves.collect()
}
