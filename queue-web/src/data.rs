//! All that the pages read, and nowhere else: the library's own functions, on one connection of a pool.

use std::fmt;
use std::time::Duration;

use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use leasehold::batch::{self, BatchGlance, BatchSummary};
use leasehold::inspect::{
    self, ErrorRecord, FailureRecord, Filter, Held, JobRecord, ProgressRecord, QueueRecord, Rate, RunningRecord,
    StepRecord, Waits, WorkerRecord,
};
use leasehold::manage::{self, Pause};
use leasehold::schedule::{self, ScheduleError, ScheduleRecord};
use leasehold::{Backend, Schema};

use crate::act::{Act, NotDone};

/// Connections for people who look; programs have their own.
const CONNECTIONS: u32 = 4;
/// Whoever asks for a page would rather be told.
const PATIENCE: Duration = Duration::from_secs(5);

/// The database cannot be opened by its URL.
#[derive(Debug, thiserror::Error)]
#[error("the pool of connections cannot be made: {0}")]
pub struct OpenError(#[from] diesel::r2d2::PoolError);

/// Why a page has no data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    #[error("no connection within {PATIENCE:?}: {0}")]
    Pool(#[from] diesel::r2d2::PoolError),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
    #[error(transparent)]
    Schedule(ScheduleError),
}

pub(crate) type Data<T> = Result<T, DataError>;

/// Stretches of time that are plotted, and how long each is.
const BUCKETS: u32 = 60;
const BUCKET: Duration = Duration::from_secs(60);
/// Leases that are shown.
const LEASES: u32 = 200;
/// Jobs of one drawing.
const NODES: u32 = 200;
/// Failed attempts on the overview.
const FAILURES: u32 = 10;

/// Which jobs a list shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) filter: Filter,
    /// The last id of the page before.
    pub(crate) after: i64,
    pub(crate) limit: u32,
}

/// All queues, as they are now.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<QueueRecord>,
    pub(crate) pauses: Vec<Pause>,
}

/// One job's whole life.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) job: JobRecord,
    /// The lease that somebody holds now.
    pub(crate) lease: Option<RunningRecord>,
    pub(crate) errors: Vec<ErrorRecord>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) progress: Option<ProgressRecord>,
    pub(crate) result: Option<serde_json::Value>,
}

/// A database of whichever backend.
pub(crate) trait Source: Send + Sync {
    fn queues(&self) -> Data<Queues>;

    /// What ended within the last hour, by the minute.
    fn rates(&self) -> Data<Vec<Rate>>;

    /// Worker processes, and running jobs.
    fn workers(&self) -> Data<(Vec<WorkerRecord>, Vec<RunningRecord>)>;

    fn jobs(&self, wanted: &Wanted) -> Data<Vec<JobRecord>>;

    fn life(&self, id: i64) -> Data<Option<Life>>;

    fn schedules(&self) -> Data<Vec<ScheduleRecord>>;

    /// The newest batches, or the newest of those that are older than one.
    fn batches(&self, before: Option<i64>, limit: u32) -> Data<Vec<BatchSummary>>;

    fn batch(&self, id: i64) -> Data<Option<BatchGlance>>;

    /// The workflow around a job.
    fn waits(&self, id: i64) -> Data<Waits>;

    /// The newest failed attempts.
    fn failures(&self) -> Data<Vec<FailureRecord>>;

    fn act(&self, act: &Act, who: &str) -> Result<(), NotDone>;
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
    pub(crate) fn open(url: &str, schema: &Schema) -> Result<Self, OpenError> {
        let pool = Pool::builder()
            .max_size(CONNECTIONS)
            .min_idle(Some(0))
            .connection_timeout(PATIENCE)
            .connection_customizer(Box::new(Patient))
            .build_unchecked(ConnectionManager::new(url));
        Ok(Self::with_pool(pool, schema))
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

    fn jobs(&self, wanted: &Wanted) -> Data<Vec<JobRecord>> {
        let mut conn = self.pool.get()?;
        let jobs = inspect::list(&mut conn, &self.schema, &wanted.filter, wanted.after, wanted.limit)?;
        Ok(jobs)
    }

    fn life(&self, id: i64) -> Data<Option<Life>> {
        let (conn, schema) = (&mut self.pool.get()?, &self.schema);
        let Some(job) = inspect::job(conn, schema, id)? else {
            return Ok(None);
        };
        Ok(Some(Life {
            lease: inspect::running(conn, schema, &Held::new(), id.saturating_sub(1), 1)?
                .pop()
                .filter(|held| held.id == id),
            errors: inspect::errors(conn, schema, id)?,
            steps: inspect::steps(conn, schema, id)?,
            progress: inspect::progress(conn, schema, id)?,
            result: match inspect::result(conn, schema, id) {
                Err(inspect::ReadResultError::Database(error)) => return Err(error.into()),
                read => read.unwrap_or_default(),
            },
            job,
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

    fn failures(&self) -> Data<Vec<FailureRecord>> {
        Ok(inspect::failures(&mut self.pool.get()?, &self.schema, FAILURES)?)
    }

    fn batch(&self, id: i64) -> Data<Option<BatchGlance>> {
        Ok(batch::glance(&mut self.pool.get()?, &self.schema, id)?)
    }

    fn act(&self, act: &Act, who: &str) -> Result<(), NotDone> {
        let mut conn = self.pool.get().map_err(|error| NotDone::Data(error.into()))?;
        act.run::<C>(&mut conn, &self.schema, who)
    }
}

impl<C: Backend> fmt::Debug for Database<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
