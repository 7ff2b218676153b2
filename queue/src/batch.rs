//! Batches: many jobs that are enqueued, looked at, waited for and cancelled together, and a job that is called when all
//! have ended.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use std::time::Duration;
//! use leasehold::{Batch, EnqueueOptions, Schema, Worker, batch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, mut conn) = doctest_database();
//! let guests: Vec<Greet> = ["Ada", "Grace"].map(|name| Greet { name: name.to_owned() }).into();
//! let id = Batch::new("party")
//!     .add_all(&guests, &EnqueueOptions::new())
//!     .on_finished(&Greet { name: "everybody".to_owned() })
//!     .enqueue(&mut conn)?
//!     .id;
//! Worker::<SqliteConnection, _>::new(url, ()).register::<Greet>().run_until_empty()?;
//! let batch = batch::wait_for(&mut conn, &Schema::default(), id, Duration::from_secs(60), |_| {})?;
//! assert_eq!(batch.counts.completed, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! Each callback becomes ready exactly once, whatever crashes, and never before what it is told of. Its handler then runs as
//! any job's does: at least once, and not if the job was cancelled or has expired before. It is an ordinary job with
//! attempts of its own, stored with the batch, and does not belong to it:
//! [`LeaseGuard::callback_of`](crate::LeaseGuard::callback_of) tells its handler which batch it is called for. A batch that a
//! process left at the moment of its last commit is found by another one's maintenance, about a second later.

use diesel::result::Error;

use crate::backend::{AsBackend, Backend, NewBatch};
use crate::enqueue::{EnqueueError, EnqueueOptions, Enqueued, Jobs};
use crate::follow_up::{Direct, Ended, Followed, follow};
use crate::job::Job;
use crate::migrate::Migrate;
use crate::name::{self, NameError};
use crate::schema::Schema;
use crate::transaction::atomically;

mod add;
pub use add::{add, add_all};

mod cancel;
pub use cancel::cancel;

mod glance;
pub use glance::{BatchGlance, glance};

mod list;
pub use list::{BatchSummary, list};

mod record;
pub(crate) use record::of_callback;
pub use record::{BatchCounts, BatchRecord, record, wait_for};

/// Why a batch was not enqueued, changed or cancelled. Nothing of the call was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// One of its jobs cannot be enqueued.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// The name cannot be used: 1 to 255 bytes without control characters.
    #[error("the batch's name: {0}")]
    Name(#[source] NameError),
    /// A job with the callback's unique or idempotency key is there already, and will not wait for this batch.
    #[error("the callback's key is held by job {id}: give the callback another key, or none")]
    CallbackExists {
        /// That job's id.
        id: i64,
    },
    /// There is no such batch.
    #[error("there is no batch {id}: it may have been purged")]
    Missing {
        /// What was asked for.
        id: i64,
    },
    /// All jobs of the batch have ended, and its callback is ready.
    #[error("batch {id} has finished: enqueue another one")]
    Finished {
        /// The batch.
        id: i64,
    },
    /// The batch was cancelled.
    #[error("batch {id} was cancelled: nothing can be added to it")]
    Cancelled {
        /// The batch.
        id: i64,
    },
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// A batch that was enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnqueuedBatch {
    /// The batch's id.
    pub id: i64,
    /// Its jobs, in the order in which they were added. One that existed already is not part of the batch.
    pub jobs: Vec<Enqueued>,
}

/// A batch to be enqueued: jobs of any types, and what is called when they have ended.
///
/// See [`batch`](mod@crate::batch) for an example.
#[derive(Debug)]
#[must_use = "a batch does nothing until it is enqueued"]
pub struct Batch {
    name: String,
    schema: Schema,
    jobs: Jobs,
    done: Jobs,
    discarded: Jobs,
    /// The first mistake in what was given.
    mistake: Option<EnqueueError>,
}

impl Batch {
    /// A batch with a name for people, 1 to 255 bytes. Names need not differ.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            schema: Schema::default(),
            jobs: Jobs::default(),
            done: Jobs::default(),
            discarded: Jobs::default(),
            mistake: None,
        }
    }

    /// Enqueues into another schema than `leasehold`; what the options of its jobs say of the schema does not count.
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    /// Adds a job.
    #[expect(clippy::should_implement_trait, reason = "nobody adds batches to each other")]
    pub fn add<J: Job>(self, job: &J) -> Self {
        self.add_all(std::slice::from_ref(job), &EnqueueOptions::new())
    }

    /// Adds jobs of one type, with what they want differently from their kind.
    pub fn add_all<J: Job>(mut self, jobs: &[J], options: &EnqueueOptions) -> Self {
        let pushed = self.jobs.push(jobs, options);
        self.note(pushed)
    }

    /// The job that runs once all jobs of the batch have ended, however they did; also after the batch was cancelled. A
    /// second call replaces the first.
    pub fn on_finished<J: Job>(self, job: &J) -> Self {
        self.on_finished_with(job, &EnqueueOptions::new())
    }

    /// As [`Batch::on_finished`], with a priority, queue and more of its own; a delay counts from the batch's enqueue.
    pub fn on_finished_with<J: Job>(mut self, job: &J, options: &EnqueueOptions) -> Self {
        self.done = Jobs::default();
        let pushed = self.done.push(std::slice::from_ref(job), options);
        self.note(pushed)
    }

    /// The job that runs as soon as one job of the batch was discarded: once, however many are. If none is, it is removed
    /// when the batch finishes.
    pub fn on_discarded<J: Job>(self, job: &J) -> Self {
        self.on_discarded_with(job, &EnqueueOptions::new())
    }

    /// As [`Batch::on_discarded`], with options of its own.
    pub fn on_discarded_with<J: Job>(mut self, job: &J, options: &EnqueueOptions) -> Self {
        self.discarded = Jobs::default();
        let pushed = self.discarded.push(std::slice::from_ref(job), options);
        self.note(pushed)
    }

    fn note(mut self, pushed: Result<(), EnqueueError>) -> Self {
        self.mistake = self.mistake.or(pushed.err());
        self
    }

    /// Enqueues the batch with all its jobs, in the transaction that is open on `conn`, else in one of its own. An empty
    /// batch is done at once.
    ///
    /// # Errors
    ///
    /// [`BatchError`]; nothing is written then.
    pub fn enqueue(self, conn: &mut impl AsBackend) -> Result<EnqueuedBatch, BatchError> {
        name::check(&self.name, 255).map_err(BatchError::Name)?;
        let enqueued = conn
            .as_backend()
            .patiently(|conn| atomically(conn, |conn| self.insert(conn)))??;
        crate::wake::expect_local();
        Ok(enqueued)
    }

    fn insert<C: Backend>(mut self, conn: &mut C) -> Result<EnqueuedBatch, BatchError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake.into());
        }
        let batch = NewBatch {
            name: self.name,
            done_job: insert_callback(self.done, conn, &self.schema)?,
            discarded_job: insert_callback(self.discarded, conn, &self.schema)?,
        };
        let id = conn.insert_batch(&self.schema, &batch)?;
        self.jobs.rows_mut().for_each(|row| row.batch_id = Some(id));
        let jobs = self.jobs.insert(conn, &self.schema)?;
        if !jobs.iter().any(Enqueued::is_new) {
            check_now(conn, &self.schema, id)?;
        }
        Ok(EnqueuedBatch { id, jobs })
    }
}

/// A callback is among the jobs from the start, and waits.
fn insert_callback<C: Backend>(mut callback: Jobs, conn: &mut C, schema: &Schema) -> Result<Option<i64>, BatchError> {
    callback.rows_mut().for_each(|row| row.waits = true);
    match callback.insert(conn, schema)?.first() {
        None => Ok(None),
        Some(Enqueued::New { id }) => Ok(Some(*id)),
        Some(other) => Err(BatchError::CallbackExists { id: other.id() }),
    }
}

/// Does what a worker does after the end of a job of the batch.
fn check_now<C: Backend>(conn: &mut C, schema: &Schema, id: i64) -> Result<(), Error> {
    let mut ended = Ended::default();
    ended.batches.insert(id);
    follow(&mut Direct(conn), schema, &mut ended, &mut Followed::default())
}
