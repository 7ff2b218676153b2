//! For the tests of programs that use the queue: run jobs on one connection, without threads, inside a test transaction.
//!
//! The statements are the same ones that a worker uses; only here may they run inside an open transaction, so that
//! Diesel's `begin_test_transaction` undoes everything.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::assert_enqueued;
//! use leasehold::testing::{self, Runner};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_url, mut conn) = doctest_database();
//! conn.begin_test_transaction()?;
//! Greet { name: "you".into() }.enqueue(&mut conn)?;
//! assert_enqueued!(&mut conn, Greet, name: "you");
//!
//! let counts = Runner::new(()).register::<Greet>().drain(&mut conn)?;
//! assert_eq!(counts.completed, 1);
//! assert!(testing::enqueued::<Greet>(&mut conn)?.is_empty());
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::result::QueryResult;
use uuid::Uuid;

use crate::admit::admit_all;
use crate::backend::{AsBackend, Backend, ClaimRequest, ClaimedRow, ConnectionSettings, InspectStatements, WriteGate};
use crate::events::{Counts, Reporter};
use crate::follow_up::{self, Direct, Ended, Followed};
use crate::handler::{Handler, JobError};
use crate::job::Job;
use crate::lease::{Held, Slot};
use crate::registry::{Registry, RegistryError};
use crate::schema::Schema;
use crate::settle::{self, Settlement};

/// Runs jobs on a connection of the test's.
pub struct Runner<C: Backend, A> {
    app: A,
    registry: Registry<C, A>,
    queues: Vec<String>,
    schema: Schema,
}

/// Why a runner did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// A mistake in what was registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The database's error.
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

impl<C: Backend, A> Runner<C, A> {
    /// A runner with the state that handlers are given.
    pub fn new(app: A) -> Self {
        Self {
            app,
            registry: Registry::new(),
            queues: Vec::new(),
            schema: Schema::default(),
        }
    }

    /// Runs jobs of this type.
    #[must_use]
    pub fn register<J: Handler<C, A>>(mut self) -> Self {
        self.registry.register::<J>(J::KIND);
        self
    }

    /// Serves these queues instead of each kind's own.
    #[must_use]
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// Another schema than `leasehold`.
    #[must_use]
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    /// Runs what is due until nothing is, retries that come due at once included.
    ///
    /// # Errors
    ///
    /// [`RunnerError`]. A failing handler is no error: see the counts, and [`crate::inspect`].
    pub fn drain(&self, conn: &mut C) -> Result<Counts, RunnerError> {
        let reporter = Reporter::default();
        while self.run_next(conn, &reporter)? {}
        Ok(reporter.counts())
    }

    /// Runs the one job that a worker would claim first; whether there was one.
    ///
    /// # Errors
    ///
    /// [`RunnerError`].
    pub fn run_one(&self, conn: &mut C) -> Result<bool, RunnerError> {
        self.run_next(conn, &Reporter::default())
    }

    fn run_next(&self, conn: &mut C, reporter: &Reporter) -> Result<bool, RunnerError> {
        self.registry.check(false)?;
        let serves = self.registry.serves(&self.queues);
        conn.promote(&self.schema, &serves, 1000)?;
        admit_all(conn, &self.schema, &self.registry.limits())?;
        let counted = self.registry.counted();
        let request = ClaimRequest {
            serves: &serves,
            limit: 1,
            lease_token: Uuid::new_v4(),
            worker: Uuid::new_v4(),
            begun: true,
            counted: &counted,
            oldest: false,
            behind: &[],
        };
        let sent = Instant::now();
        let mut claimed = conn.claim(&self.schema, &request)?;
        if claimed.is_empty() && self.look_at_all(conn, reporter)? {
            claimed = conn.claim(&self.schema, &request)?;
        }
        let Some(row) = claimed.first() else { return Ok(false) };
        let held = Arc::new(Held::new(
            row,
            request.lease_token,
            self.registry.timeout(&row.kind),
            sent,
            true,
        ));
        let decided = if held.is_too_late(Instant::now()) {
            Some(settle::expire())
        } else {
            self.run(conn, row, &held, reporter)
        };
        if let Some(mut settlement) = decided {
            if settlement.write(conn, &self.schema, &held)? {
                settlement.report(&held, reporter);
            } else if let Err(refusal) = settle::diagnose(conn, &self.schema, &held, &settlement)? {
                reporter.lost(&held.info(), &refusal);
            }
        }
        let (mut ended, mut followed) = (Ended::default(), Followed::default());
        ended.add(&held);
        follow_up::follow(&mut Direct(conn), &self.schema, &mut ended, &mut followed)?;
        tell(&followed, reporter);
        Ok(true)
    }

    fn run(&self, conn: &mut C, row: &ClaimedRow, held: &Arc<Held>, reporter: &Reporter) -> Option<Settlement> {
        held.begin(Instant::now());
        reporter.begun(&held.info());
        let mut slot = Borrowed {
            conn,
            schema: &self.schema,
            settings: ConnectionSettings::default(),
            gate: WriteGate::default(),
        };
        let ran = self.registry.run(row, &mut slot, Arc::clone(held), &self.app);
        settle::decide(held, self.registry.backoff(&row.kind), ran, reporter)
    }

    /// What a worker's maintenance does, for jobs that were not ended by this runner. Whether something changed.
    fn look_at_all(&self, conn: &mut C, reporter: &Reporter) -> Result<bool, RunnerError> {
        let mut followed = Followed::default();
        follow_up::look_at_all(&mut Direct(conn), &self.schema, &mut followed)?;
        tell(&followed, reporter);
        Ok(followed.changed)
    }
}

impl<C: Backend, A> fmt::Debug for Runner<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

fn tell(followed: &Followed, reporter: &Reporter) {
    for (row, reason) in &followed.cancelled {
        reporter.cancelled(&row.info(), reason);
    }
}

/// The test's own connection; a commit in it may be a savepoint.
struct Borrowed<'a, C> {
    conn: &'a mut C,
    schema: &'a Schema,
    settings: ConnectionSettings,
    gate: WriteGate,
}

impl<C: Backend> Slot<C> for Borrowed<'_, C> {
    fn connection(&mut self) -> Result<&mut C, JobError> {
        Ok(self.conn)
    }

    fn give_back(&mut self, _broken: bool) {}

    fn fresh(&self) -> Result<C, JobError> {
        Err(JobError::retry(
            "a test's connection has no second one to resolve a lost COMMIT",
        ))
    }

    fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    fn schema(&self) -> &Schema {
        self.schema
    }

    fn write_gate(&self) -> &WriteGate {
        &self.gate
    }

    fn permits_savepoint(&self) -> bool {
        true
    }
}

/// The payloads of a type's jobs that have not ended, oldest first, in the default schema. Payloads that do not decode
/// are left out.
///
/// # Errors
///
/// The database's.
pub fn enqueued<J: Job>(conn: &mut impl AsBackend) -> QueryResult<Vec<J>> {
    let jobs = conn.as_backend().open_jobs(&Schema::default(), J::KIND)?;
    Ok(jobs
        .iter()
        .filter_map(|job| crate::registry::decode(job.version, &job.payload).ok())
        .collect())
}

/// Sets the run time of a ready job to `after` from now: `Duration::ZERO` makes it due. Whether there was such a job.
///
/// # Errors
///
/// The database's.
pub fn run_after(conn: &mut impl AsBackend, schema: &Schema, id: i64, after: Duration) -> QueryResult<bool> {
    Ok(conn.as_backend().move_run_at(schema, id, settle::millis(after))? > 0)
}

/// Lets the lease of a running job run out now, as if its worker had died long ago. Whether there was such a job.
///
/// # Errors
///
/// The database's.
pub fn expire_lease(conn: &mut impl AsBackend, schema: &Schema, id: i64) -> QueryResult<bool> {
    Ok(conn.as_backend().expire_lease(schema, id)? > 0)
}

/// Asserts that a job of a type with these field values has not ended: `assert_enqueued!(&mut conn, Greet, name: "you")`.
///
/// # Panics
///
/// When there is none; the text says how many others there are.
#[macro_export]
macro_rules! assert_enqueued {
    ($conn:expr, $Job:ty $(, $field:ident : $value:expr)* $(,)?) => {{
        let jobs = $crate::testing::enqueued::<$Job>($conn).expect("the jobs can be read");
        let wanted: &[&str] = &[$(concat!(stringify!($field), ": ", stringify!($value))),*];
        assert!(
            jobs.iter().any(|job| { let _ = job; true $(&& job.$field == $value)* }),
            "no job `{}` with {}; there are {} of this kind",
            <$Job as $crate::Job>::KIND,
            if wanted.is_empty() { "any fields".into() } else { wanted.join(", ") },
            jobs.len(),
        );
    }};
}
