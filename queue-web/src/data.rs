//! All that the pages read, and nowhere else: the library's own functions, on one connection of a pool.

use std::fmt;
use std::time::Duration;

use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use leasehold::batch::{self, BatchGlance, BatchSummary};
use leasehold::inspect::{
    self, ActionFilter, ActionRecord, Count, FailureRecord, Held, JobRecord, QueueRecord, Rate, RunningRecord,
    StepRecord, Waits, WorkerRecord,
};
use leasehold::manage::{self, Pause};
use leasehold::migrate::{MigrateError, Migrations};
use leasehold::schedule::{self, ScheduleError, ScheduleRecord};
use leasehold::{Backend, Schema};

use crate::act::{Act, Done, NotDone};
use crate::search::{Found, Key, Wanted};

/// Connections for people who look; programs have their own.
const CONNECTIONS: u32 = 4;
/// Whoever asks for a page would rather be told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a page has no data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    #[error("no connection within {PATIENCE:?}: {0}")]
    Pool(#[from] diesel::r2d2::PoolError),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
    #[error(transparent)]
    Schedule(ScheduleError),
    /// The tables are not there, or not as this program needs them.
    #[error(transparent)]
    Schema(MigrateError),
}

pub(crate) type Data<T> = Result<T, DataError>;

/// Stretches of time that are plotted, and how long each is.
const BUCKETS: u32 = 60;
const BUCKET: Duration = Duration::from_secs(60);
/// Leases that are shown.
const LEASES: u32 = 200;
/// Jobs of one drawing.
const NODES: u32 = 200;
/// Failed attempts that the overview groups.
const FAILURES: u32 = 200;

/// All queues, as they are now.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<QueueRecord>,
    pub(crate) pauses: Vec<Pause>,
}

/// One job's whole life.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) life: inspect::Life,
    pub(crate) job: JobRecord,
    /// Only where payloads are shown: their results may be large, too.
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) result: Option<serde_json::Value>,
}

/// A database of whichever backend.
pub(crate) trait Source: Send + Sync {
    fn queues(&self) -> Data<Queues>;

    /// What ended within the last hour, by the minute.
    fn rates(&self) -> Data<Vec<Rate>>;

    /// Worker processes, and running jobs.
    fn workers(&self) -> Data<(Vec<WorkerRecord>, Vec<RunningRecord>)>;

    /// The next jobs that are meant, `limit` at the most; with the first ones how many there are.
    fn jobs(&self, wanted: &Wanted, limit: usize) -> Data<(Found, Option<Count>)>;

    /// The job that has a key.
    fn holder(&self, key: &Key<'_>) -> Data<Option<i64>>;

    fn life(&self, id: i64, payloads: bool) -> Data<Option<Life>>;

    fn schedules(&self) -> Data<Vec<ScheduleRecord>>;

    /// The newest batches, or the newest of those that are older than one.
    fn batches(&self, before: Option<i64>, limit: u32) -> Data<Vec<BatchSummary>>;

    fn batch(&self, id: i64) -> Data<Option<BatchGlance>>;

    /// The workflow around a job.
    fn waits(&self, id: i64) -> Data<Waits>;

    /// What people did by hand, the newest first, before one.
    fn actions(&self, filter: &ActionFilter, before: Option<i64>, limit: u32) -> Data<Vec<ActionRecord>>;

    /// The newest failed attempts.
    fn failures(&self) -> Data<Vec<FailureRecord>>;

    fn act(&self, act: &Act, who: &str) -> Result<Done, NotDone>;

    /// Of an error, what people can do something about.
    fn explain(&self, error: DataError) -> DataError;
}

pub(crate) struct Database<C: Backend> {
    pool: Pool<ConnectionManager<C>>,
    schema: Schema,
}

#[derive(Debug)]
struct Patient;

impl<C: Backend> CustomizeConnection<C, diesel::r2d2::Error> for Patient {
    /// A look neither fails beside a writer nor goes on when nobody waits for it any more.
    fn on_acquire(&self, conn: &mut C) -> Result<(), diesel::r2d2::Error> {
        let settings = match C::NAME {
            "sqlite" => "PRAGMA busy_timeout = 5000",
            _ => "SET statement_timeout = 10000",
        };
        conn.batch_execute(settings).map_err(diesel::r2d2::Error::QueryError)
    }
}

impl<C: Backend> Database<C> {
    pub(crate) fn open(url: &str, schema: &Schema) -> Self {
        let pool = Pool::builder()
            .max_size(CONNECTIONS)
            .min_idle(Some(0))
            .connection_timeout(PATIENCE)
            .connection_customizer(Box::new(Patient))
            .build_unchecked(ConnectionManager::new(C::pool_url(url)));
        Self::with_pool(pool, schema)
    }

    pub(crate) fn with_pool(pool: Pool<ConnectionManager<C>>, schema: &Schema) -> Self {
        Self {
            pool,
            schema: schema.clone(),
        }
    }
}

impl<C: Backend> Source for Database<C> {
    fn queues(&self) -> Data<Queues> {
        let mut conn = self.pool.get()?;
        Ok(Queues {
            queues: inspect::queues(&mut conn, &self.schema)?,
            pauses: manage::pauses(&mut conn, &self.schema)?,
        })
    }

    fn rates(&self) -> Data<Vec<Rate>> {
        Ok(inspect::rates(&mut self.pool.get()?, &self.schema, BUCKET, BUCKETS)?)
    }

    fn workers(&self) -> Data<(Vec<WorkerRecord>, Vec<RunningRecord>)> {
        let mut conn = self.pool.get()?;
        let workers = inspect::workers(&mut conn, &self.schema)?;
        let running = inspect::running(&mut conn, &self.schema, &Held::new(), 0, LEASES)?;
        Ok((workers, running))
    }

    fn jobs(&self, wanted: &Wanted, limit: usize) -> Data<(Found, Option<Count>)> {
        let (conn, schema) = (&mut *self.pool.get()?, &self.schema);
        Ok(match wanted.from {
            None => {
                let (found, count) = wanted.first::<C>(conn, schema, limit)?;
                (found, Some(count))
            }
            Some(_) => (wanted.find::<C>(conn, schema, limit)?, None),
        })
    }

    fn holder(&self, key: &Key<'_>) -> Data<Option<i64>> {
        Ok(key.holder::<C>(&mut *self.pool.get()?, &self.schema)?)
    }

    fn life(&self, id: i64, payloads: bool) -> Data<Option<Life>> {
        let (conn, schema) = (&mut self.pool.get()?, &self.schema);
        let life = inspect::life(conn, schema, id)?;
        let (Some(life), Some(job)) = (life, inspect::job(conn, schema, id)?) else {
            return Ok(None);
        };
        let steps = match payloads {
            true => inspect::steps(conn, schema, id)?,
            false => Vec::new(),
        };
        let result = match inspect::result(conn, schema, id) {
            Err(inspect::ReadResultError::Database(error)) => return Err(error.into()),
            read => read.unwrap_or_default(),
        };
        Ok(Some(Life {
            life,
            job,
            steps,
            result,
        }))
    }

    fn schedules(&self) -> Data<Vec<ScheduleRecord>> {
        schedule::list(&mut self.pool.get()?, &self.schema).map_err(DataError::Schedule)
    }

    fn batches(&self, before: Option<i64>, limit: u32) -> Data<Vec<BatchSummary>> {
        Ok(batch::list(&mut self.pool.get()?, &self.schema, before, limit)?)
    }

    fn waits(&self, id: i64) -> Data<Waits> {
        Ok(inspect::waits(&mut self.pool.get()?, &self.schema, id, NODES)?)
    }

    fn actions(&self, filter: &ActionFilter, before: Option<i64>, limit: u32) -> Data<Vec<ActionRecord>> {
        let mut conn = self.pool.get()?;
        Ok(inspect::actions(&mut conn, &self.schema, filter, before, limit)?)
    }

    fn failures(&self) -> Data<Vec<FailureRecord>> {
        Ok(inspect::failures(&mut self.pool.get()?, &self.schema, FAILURES)?)
    }

    fn batch(&self, id: i64) -> Data<Option<BatchGlance>> {
        Ok(batch::glance(&mut self.pool.get()?, &self.schema, id)?)
    }

    fn act(&self, act: &Act, who: &str) -> Result<Done, NotDone> {
        let mut conn = self.pool.get().map_err(|error| NotDone::Data(error.into()))?;
        act.run::<C>(&mut conn, &self.schema, who)
    }

    fn explain(&self, error: DataError) -> DataError {
        let (DataError::Database(_) | DataError::Schedule(_)) = error else {
            return error;
        };
        let Ok(mut conn) = self.pool.get() else { return error };
        match Migrations::in_schema(&self.schema).check(&mut conn) {
            Ok(()) | Err(MigrateError::Database(_)) => error,
            Err(schema) => DataError::Schema(schema),
        }
    }
}

impl<C: Backend> fmt::Debug for Database<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
