//! What only SQLite does, and only in here can be seen: the mark of a commit, the write lock, the gate. What both
//! databases do is in the conformance tests.

mod commit;
mod connect;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection, sql_query};
use uuid::Uuid;

use crate::backend::*;
use crate::commit::Commit;
use crate::handler::JobError;
use crate::lease::{Held, Slot};
use crate::schema::Schema;

/// A database file of its own.
struct Database(PathBuf);

impl Database {
    fn new() -> Self {
        let database = Self::without_tables();
        let mut conn = database.connect();
        crate::migrate(&mut conn).unwrap();
        conn.batch_execute("CREATE TABLE written (id INTEGER PRIMARY KEY)")
            .unwrap();
        database
    }

    fn without_tables() -> Self {
        Self(std::env::temp_dir().join(format!("leasehold-{}.db", Uuid::new_v4())))
    }

    fn url(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn connect(&self) -> SqliteConnection {
        SqliteConnection::connect(self.url(), &ConnectionSettings::default()).unwrap()
    }

    /// One that gives up soon.
    fn impatient(&self) -> SqliteConnection {
        let settings = ConnectionSettings {
            busy_timeout: Duration::from_millis(50),
            ..ConnectionSettings::default()
        };
        SqliteConnection::connect(self.url(), &settings).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.url()));
        }
    }
}

fn new_job() -> NewJob {
    NewJob {
        queue: "default".to_owned(),
        kind: "test".into(),
        version: 1,
        payload: "{}".to_owned(),
        priority: 0,
        run_at: RunAt::After(0),
        max_attempts: 3,
        lease_ms: 60_000,
        idempotency_key: None,
        remember_ms: 60_000,
        unique_key: None,
        unique: crate::Unique::default(),
        expires_ms: None,
        limit_key: None,
        limit_rank: 0,
        batch_id: None,
        waits: false,
        awaited: false,
    }
}

fn serves() -> Vec<Served> {
    vec![Served {
        queue: "default".to_owned(),
        kind: "test".to_owned(),
        version: 1,
    }]
}

fn claim(conn: &mut SqliteConnection, limit: i64) -> Vec<Held> {
    let (lease_token, sent) = (Uuid::new_v4(), Instant::now());
    let request = ClaimRequest {
        serves: &serves(),
        limit,
        lease_token,
        worker: Uuid::new_v4(),
        begun: true,
        counted: &[],
        oldest: false,
        behind: &[],
    };
    let rows = conn.claim(&Schema::default(), &request).unwrap();
    rows.iter()
        .map(|row| Held::new(row, lease_token, None, sent, true))
        .collect()
}

fn enqueue_and_claim(conn: &mut SqliteConnection) -> Held {
    conn.insert(&Schema::default(), &[new_job()]).unwrap();
    claim(conn, 1).pop().unwrap()
}

fn written(conn: &mut SqliteConnection) -> i64 {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        rows: i64,
    }
    sql_query("SELECT count(*) AS rows FROM written")
        .get_result::<Count>(conn)
        .unwrap()
        .rows
}

fn state(conn: &mut SqliteConnection, id: i64) -> String {
    conn.job(&Schema::default(), id).unwrap().unwrap().state
}

/// A slot on one connection; `broken` is what the last return said.
struct OneConnection<'a> {
    database: &'a Database,
    conn: SqliteConnection,
    schema: Schema,
    settings: ConnectionSettings,
    gate: WriteGate,
    savepoint: bool,
    broken: bool,
}

impl<'a> OneConnection<'a> {
    fn new(database: &'a Database) -> Self {
        Self {
            database,
            conn: database.connect(),
            schema: Schema::default(),
            settings: ConnectionSettings::default(),
            gate: SqliteConnection::write_gate(database.url()),
            savepoint: false,
            broken: false,
        }
    }

    fn commit(
        &mut self,
        held: &Held,
        mut writes: impl FnMut(&mut SqliteConnection) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.broken = false;
        Commit {
            held,
            strict: false,
            isolation: None,
            tries: 1,
        }
        .run(self, |tx| writes(tx).map(|()| None))
    }
}

impl Slot<SqliteConnection> for OneConnection<'_> {
    fn connection(&mut self) -> Result<&mut SqliteConnection, JobError> {
        Ok(&mut self.conn)
    }

    fn give_back(&mut self, broken: bool) {
        self.broken |= broken;
    }

    fn fresh(&self) -> Result<SqliteConnection, JobError> {
        Ok(self.database.connect())
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    fn write_gate(&self) -> &WriteGate {
        &self.gate
    }

    fn permits_savepoint(&self) -> bool {
        self.savepoint
    }
}
