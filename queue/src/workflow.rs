//! Workflows: jobs that wait for other jobs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use diesel::result::Error;

use crate::backend::AsBackend;
use crate::enqueue::{EnqueueError, EnqueueOptions, Jobs};
use crate::job::Job;
use crate::migrate::Migrate;
use crate::name::{self, NameError};
use crate::schema::Schema;
use crate::transaction::atomically;

mod plan;
use plan::Plan;

/// Jobs of any types, some of which wait for others, enqueued as a whole.
///
/// A job runs once all that it comes [`after`](WorkflowJob::after) have completed. If one of them is discarded or
/// cancelled, it is cancelled, and so on down to the last; one that shall [`run_anyway`](WorkflowJob::run_anyway) runs once
/// all have ended, however they did. Its handler reads their results by
/// [`LeaseGuard::result_of`](crate::LeaseGuard::result_of).
///
/// ```
/// # include!("doctest_setup.rs");
/// use leasehold::{Worker, Workflow};
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(kind = "count")]
/// struct Count {
///     text: String,
/// }
///
/// impl Handler<SqliteConnection> for Count {
///     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
///         lease.finish_result(&self.text.split(' ').count())
///     }
/// }
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(kind = "sum")]
/// struct Sum;
///
/// impl Handler<SqliteConnection> for Sum {
///     fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
///         let counts: Vec<Option<u64>> = lease.results_of("count")?;
///         assert_eq!(counts.into_iter().flatten().sum::<u64>(), 5);
///         lease.finish()
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// let workflow = Workflow::new();
/// let first = workflow.add(&Count { text: "to be".to_owned() });
/// let second = workflow.add(&Count { text: "or not to".to_owned() });
/// workflow.add(&Sum).after(first).after(second);
/// workflow.enqueue(&mut conn)?;
///
/// let worker = Worker::<SqliteConnection, _>::new(url, ()).register::<Count>().register::<Sum>();
/// assert_eq!(worker.run_until_empty()?.counts.completed, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "a workflow does nothing until it is enqueued"]
#[derive(Default)]
pub struct Workflow {
    /// Shared by its jobs.
    inner: RefCell<Inner>,
    schema: Schema,
}

#[derive(Default)]
struct Inner {
    jobs: Jobs,
    nodes: Vec<Node>,
    /// The first mistake in what was given.
    mistake: Option<WorkflowError>,
}

#[derive(Default)]
struct Node {
    name: Option<String>,
    after: BTreeSet<usize>,
    anyway: bool,
}

/// Why a workflow was not enqueued. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// One of its jobs cannot be enqueued.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// A job's name cannot be used: 1 to 128 bytes without control characters.
    #[error("a job's name: {0}")]
    Name(#[source] NameError),
    /// A job comes after itself, perhaps by way of others.
    #[error("the job `{name}` waits for itself, perhaps by way of others: none of them could begin")]
    Cycle {
        /// Its name, or its kind.
        name: String,
    },
    /// A job comes after one of another workflow.
    #[error("a job comes after one of another workflow: add both to the same one")]
    OtherWorkflow,
    /// A job with the same unique or idempotency key is there already. A workflow is enqueued whole or not at all.
    #[error("the key of the job `{name}` is held by job {id}: a workflow is enqueued whole or not at all")]
    Exists {
        /// The job's name, or its kind.
        name: String,
        /// That job's id.
        id: i64,
    },
    /// [`Workflow::enqueue`] was called before.
    #[error("the workflow was handed to `enqueue` before: build another one")]
    Spent,
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

/// A job of a [`Workflow`] that is not enqueued yet.
#[derive(Clone, Copy)]
pub struct WorkflowJob<'w> {
    workflow: &'w Workflow,
    index: usize,
}

/// The ids of a workflow's jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueuedWorkflow {
    ids: Vec<i64>,
}

impl EnqueuedWorkflow {
    /// The id of one of its jobs.
    ///
    /// # Panics
    ///
    /// When the job is of another, larger workflow.
    #[must_use]
    pub fn id_of(&self, job: WorkflowJob<'_>) -> i64 {
        self.ids[job.index]
    }

    /// All ids, in the order in which the jobs were added.
    #[must_use]
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }
}

impl Workflow {
    /// A workflow without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enqueues into another schema than `leasehold`; what the options of its jobs say of the schema does not count.
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    /// Adds a job; others can refer to what is returned.
    pub fn add<J: Job>(&self, job: &J) -> WorkflowJob<'_> {
        self.add_with(job, &EnqueueOptions::new())
    }

    /// As [`Workflow::add`], with a run time, priority, queue and more of its own. A delay counts from the enqueue; the job
    /// waits for whichever is later, that time or the jobs that it comes after.
    pub fn add_with<J: Job>(&self, job: &J, options: &EnqueueOptions) -> WorkflowJob<'_> {
        let mut inner = self.inner.borrow_mut();
        let pushed = inner.jobs.push(std::slice::from_ref(job), options);
        inner.note(pushed.map_err(Into::into));
        inner.nodes.push(Node::default());
        WorkflowJob {
            workflow: self,
            index: inner.nodes.len() - 1,
        }
    }

    /// Enqueues all its jobs, in the transaction that is open on `conn`, else in one of its own. Once: a second call is an
    /// error.
    ///
    /// # Errors
    ///
    /// [`WorkflowError`]; nothing is written then.
    pub fn enqueue(&self, conn: &mut impl AsBackend) -> Result<EnqueuedWorkflow, WorkflowError> {
        let spent = Inner {
            mistake: Some(WorkflowError::Spent),
            ..Inner::default()
        };
        let plan = Plan::new(self.inner.replace(spent))?;
        let ids = conn
            .as_backend()
            .patiently(|conn| atomically(conn, |conn| plan.insert(conn, &self.schema)))??;
        crate::wake::expect_local();
        Ok(EnqueuedWorkflow { ids })
    }
}

impl Inner {
    fn note(&mut self, done: Result<(), WorkflowError>) {
        self.mistake = self.mistake.take().or(done.err());
    }
}

impl<'w> WorkflowJob<'w> {
    /// This job runs once `other` has completed, too.
    pub fn after(self, other: WorkflowJob<'_>) -> Self {
        let same = std::ptr::eq(self.workflow, other.workflow);
        self.note(same.then_some(()).ok_or(WorkflowError::OtherWorkflow));
        self.change(|node| _ = node.after.insert(other.index))
    }

    /// This job runs once all of `others` have completed, too.
    pub fn after_all<'o>(self, others: impl IntoIterator<Item = WorkflowJob<'o>>) -> Self {
        others.into_iter().fold(self, WorkflowJob::after)
    }

    /// Names the job for those that come after it: 1 to 128 bytes. Without a name they find its result under its kind.
    pub fn named(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.note(name::check(&name, 128).map_err(WorkflowError::Name));
        self.change(|node| node.name = Some(name))
    }

    /// This job runs once all that it comes after have ended, even if some were discarded or cancelled.
    pub fn run_anyway(self) -> Self {
        self.change(|node| node.anyway = true)
    }

    fn note(self, done: Result<(), WorkflowError>) {
        self.workflow.inner.borrow_mut().note(done);
    }

    /// No job is left once the workflow was enqueued.
    fn change(self, change: impl FnOnce(&mut Node)) -> Self {
        self.workflow.inner.borrow_mut().nodes.get_mut(self.index).map(change);
        self
    }
}

impl fmt::Debug for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflow")
            .field("jobs", &self.inner.borrow().nodes.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkflowJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkflowJob").field(&self.index).finish()
    }
}
