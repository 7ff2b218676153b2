//! What a worker is told before it starts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crossbeam_channel::bounded;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool, PoolError};
use uuid::Uuid;

use super::admitter::Admitter;
use super::batch::{Look, Progress};
use super::checker::FollowUps;
use super::control::{Control, masked};
use super::lanes::Lane;
use super::leases::Leases;
use super::line::Line;
use super::pace::Pace;
use super::relay::{self, Topic};
use super::running::Running;
use super::selected::Choosing;
use super::turns::InTurn;
use super::{Locked, Shared, Stop};
use crate::backend::{Backend, ConnectionSettings, Served, ServerError, WorkerRow};
use crate::events::{Hooks, Reporter};
use crate::handler::Handler;
use crate::manage::Retention;
use crate::migrate::MigrateError;
use crate::name::{self, NameError};
use crate::registry::{Registry, RegistryError};
#[cfg(feature = "schedules")]
use crate::schedule::Schedule;
use crate::schema::Schema;

/// As good as never, and still a time that a clock can be moved by.
const LONGEST_INTERVAL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs jobs: a pool of threads on a database.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::Worker;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_database();
/// Greet { name: "you".into() }.enqueue(&mut conn)?;
///
/// let summary = Worker::<SqliteConnection, _>::new(&url, ())
///     .threads(2)
///     .register::<Greet>()
///     .run_until_empty()?;
/// assert_eq!(summary.counts.completed, 1);
/// # Ok(())
/// # }
/// ```
pub struct Worker<C: Backend, A> {
    pub(super) url: String,
    pub(super) app: A,
    pub(super) registry: Registry<C, A>,
    pub(super) pool: Option<Pool<ConnectionManager<C>>>,
    pub(super) settings: ConnectionSettings,
    pub(super) schema: Schema,
    pub(super) threads: usize,
    pub(super) fixed_batch: Option<usize>,
    pub(super) unbatched: bool,
    pub(super) selected_only: bool,
    pub(super) queues: Vec<String>,
    pub(super) queue_threads: Vec<(String, usize)>,
    pub(super) poll: Duration,
    pub(super) sweep_every: Duration,
    pub(super) retention: Retention,
    pub(super) hooks: Option<Box<dyn Hooks>>,
    pub(super) allow_unsafe_server: bool,
    pub(super) relays: Vec<Topic>,
    pub(super) batch: bool,
    pub(super) patience: Duration,
    pub(super) progress: Vec<ProgressFn>,
    #[cfg(feature = "schedules")]
    pub(super) schedules: Vec<Schedule>,
    #[cfg(feature = "signals")]
    pub(super) signals: bool,
}

pub(super) type ProgressFn = Box<dyn FnMut(&Progress) + Send>;

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A mistake in what was registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A queue's name cannot be used.
    #[error("the queue's name: {0}")]
    Queue(#[from] NameError),
    /// [`Worker::queue_threads`] names a queue from which nothing is served.
    #[error(
        "nothing is served from the queue `{0}`, which was given threads: name it in `queues`, or correct its name"
    )]
    NotServed(String),
    /// A topic's name cannot be used.
    #[error("the topic: {0}")]
    Topic(#[source] NameError),
    /// [`Worker::relay`] names a topic twice: an event would go to one of the two.
    #[error("the topic `{0}` has two relays: deliver to both from one, or give the second a topic of its own")]
    RelayTwice(String),
    /// No connection to the database: the error's text, without the password that the URL may hold.
    #[error("cannot connect to the database: {0}")]
    Connect(String),
    /// The database server cannot keep the promise.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The queue's tables are missing, or belong to another version of the library.
    #[error(transparent)]
    Schema(#[from] MigrateError),
    /// [`Worker::run_until_empty`] on a worker that claims nothing by itself: it would wait for ever.
    #[error("a worker with `claims_selected_only` does not run until the queue is empty: use `start`")]
    SelectedOnly,
    /// A mistake in a schedule.
    #[cfg(feature = "schedules")]
    #[error(transparent)]
    Schedule(#[from] crate::schedule::ScheduleError),
    /// The handlers' pool could not be made.
    #[error("cannot make the handlers' pool: {0}")]
    Pool(#[from] PoolError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl<C: Backend, A: Send + Sync + 'static> Worker<C, A> {
    /// A worker on the database at `url`, with the state that handlers are given. Four threads, unless
    /// [`Worker::threads`] says otherwise.
    pub fn new(url: impl Into<String>, app: A) -> Self {
        Self {
            url: url.into(),
            app,
            registry: Registry::new(),
            pool: None,
            settings: ConnectionSettings::default(),
            schema: Schema::default(),
            threads: 4,
            fixed_batch: None,
            unbatched: false,
            selected_only: false,
            queues: Vec::new(),
            queue_threads: Vec::new(),
            poll: Duration::from_secs(1),
            sweep_every: Duration::from_secs(1),
            retention: Retention::default(),
            hooks: None,
            allow_unsafe_server: false,
            relays: Vec::new(),
            batch: false,
            patience: Duration::from_secs(60),
            progress: Vec::new(),
            #[cfg(feature = "schedules")]
            schedules: Vec::new(),
            #[cfg(feature = "signals")]
            signals: false,
        }
    }

    /// Runs jobs of this type.
    #[must_use]
    pub fn register<J: Handler<C, A>>(mut self) -> Self {
        self.registry.register::<J>(J::KIND);
        #[cfg(feature = "schedules")]
        self.schedules.extend(J::schedule());
        self
    }

    /// Writes this schedule into the database at the start; see [`schedule`](mod@crate::schedule) for what becomes of one
    /// that is there. Its kind need not be registered here.
    #[cfg(feature = "schedules")]
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Runs jobs that were stored under another kind as this type: the kind's name before a rename.
    #[must_use]
    pub fn register_alias<J: Handler<C, A>>(mut self, kind: &'static str) -> Self {
        self.registry.register::<J>(kind);
        self
    }

    /// How many handlers run at the same time; at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Always so many jobs ahead of the threads, instead of as many as they get through in a moment. For measurements.
    #[doc(hidden)]
    #[must_use]
    pub fn fixed_batch(mut self, jobs: usize) -> Self {
        self.fixed_batch = Some(jobs);
        self
    }

    /// Claims and settles each job by itself, on a connection of each thread's own, instead of many in one statement.
    /// Jobs do not wait for each other then, and short ones run slower.
    #[must_use]
    pub fn unbatched(mut self) -> Self {
        self.unbatched = true;
        self
    }

    /// Claims nothing by itself: the program chooses with [`Running::claim_selected`]. What it chooses and hands over is
    /// run by the worker's threads; leases are renewed and swept, and schedules fire, as in any worker.
    ///
    /// Such a worker cannot [run until empty](Worker::run_until_empty).
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use leasehold::selected::Answer;
    /// use leasehold::Worker;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, mut conn) = doctest_database();
    /// let worker = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>();
    /// let running = worker.claims_selected_only().start()?;
    /// let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
    /// if let Answer::Claimed(job) = running.claim_now(id)? {
    ///     job.hand_over();
    /// }
    /// while running.counts().completed < 1 {
    ///     std::thread::yield_now();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn claims_selected_only(mut self) -> Self {
        self.selected_only = true;
        self
    }

    /// Serves these queues, each for every registered kind, instead of each kind's own queue.
    #[must_use]
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// The handlers' connections: a pool of the application's own, of one connection or more. By default a pool is
    /// made that opens as many as there are threads, and more only for threads that replace stuck ones. Control connections are outside of it in any case. Its connections are used as
    /// they are: on SQLite give them a `busy_timeout`, `journal_mode = WAL` and `synchronous = FULL`.
    #[must_use]
    pub fn with_pool(mut self, pool: Pool<ConnectionManager<C>>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Another schema than `leasehold`.
    #[must_use]
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    /// How long a missed wake-up can go unnoticed; one second by default.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = interval.clamp(Duration::from_millis(1), LONGEST_INTERVAL);
        self
    }

    /// How often the worker looks for what nobody else does; every second by default.
    ///
    /// That is: leases and jobs that have expired, batches and waiting jobs whose process died before it looked, and
    /// schedules that other programs have changed.
    #[must_use]
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.sweep_every = interval.clamp(Duration::from_millis(1), LONGEST_INTERVAL);
        self
    }

    /// How long finished jobs are kept; see [`Retention`] for the default. Where workers differ, the shortest time counts.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// A pooler in transaction mode sits between: nothing is set for the session, no statement is kept prepared, and
    /// wake-ups come by polling.
    #[must_use]
    pub fn transaction_pooler(mut self) -> Self {
        self.settings.transaction_pooler = true;
        self
    }

    /// Is told of each event.
    #[must_use]
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Some(Box::new(hooks));
        self
    }

    /// Starts on a server with `fsync = off` or `full_page_writes = off`. Only for tests: after a crash such a server may
    /// have lost commits that it acknowledged.
    #[must_use]
    pub fn allow_unsafe_server(mut self) -> Self {
        self.allow_unsafe_server = true;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing runs then.
    pub fn start(self) -> Result<Running<C, A>, StartError> {
        self.registry.check(!self.relays.is_empty())?;
        relay::check(&self.relays)?;
        for queue in &self.queues {
            name::check(queue, 128)?;
        }
        let serves = self.registry.serves(&self.queues);
        let is_served = |queue: &str| serves.iter().any(|served| served.queue == queue);
        if let Some((queue, _)) = self.queue_threads.iter().find(|(queue, _)| !is_served(queue)) {
            return Err(StartError::NotServed(queue.clone()));
        }
        if cfg!(panic = "abort") {
            log::warn!("built with panic = \"abort\": a panicking handler ends the process instead of its attempt");
        }
        let mut conn =
            C::connect(&self.url, &self.settings).map_err(|error| StartError::Connect(masked(&self.url, &error)))?;
        for warning in conn.check_server(self.allow_unsafe_server)? {
            log::warn!("{warning}");
        }
        crate::migrate::check_compatible(&mut conn, &self.schema)?;
        #[cfg(feature = "schedules")]
        crate::schedule::define_all(&mut conn, &self.schema, &self.schedules)?;
        drop(conn);
        let (wake, wakes) = bounded(1);
        let (line, wanted) = Line::new();
        let shared = Arc::new(self.share(wake, line)?);
        crate::wake::register(shared.wake.clone(), shared.cancels.0.clone());
        Running::start(shared, wanted, wakes)
    }

    fn share(mut self, wake: crossbeam_channel::Sender<()>, line: Line) -> Result<Shared<C, A>, StartError> {
        let serves = self.registry.serves(&self.queues);
        let mut queues: Vec<String> = serves.iter().map(|served| served.queue.clone()).collect();
        queues.dedup();
        let kinds = newest(&serves);
        let pool = match self.pool.take() {
            Some(pool) => pool,
            // As many again, for the threads that replace stuck ones: those keep what they hold.
            None => handlers_pool(&self.url, &self.settings, self.threads.saturating_mul(2))?,
        };
        Ok(Shared {
            worker: WorkerRow {
                id: Uuid::new_v4(),
                host: hostname(),
                pid: i32::try_from(std::process::id()).unwrap_or_default(),
                threads: i32::try_from(self.threads).unwrap_or(i32::MAX),
                queues,
                kinds,
            },
            beats: InTurn::new(Control::new("heartbeat", &self.url, &self.settings)),
            outbox: InTurn::new(Control::new("relay", &self.url, &self.settings)),
            choosing: Choosing::new(&self.url, &self.settings),
            reporter: Reporter::new(self.hooks),
            signs: Arc::default(),
            url: self.url,
            settings: self.settings,
            schema: self.schema,
            counted: self.registry.counted(),
            admitter: Admitter::new(self.registry.limits(), self.poll),
            registry: self.registry,
            app: self.app,
            pool,
            lanes: Lane::of(&serves, &self.queue_threads),
            serves,
            threads: self.threads,
            pace: Pace::new(self.threads, self.fixed_batch),
            line,
            unbatched: self.unbatched,
            selected_only: self.selected_only,
            poll: self.poll,
            sweep_every: self.sweep_every,
            retention: self.retention,
            relays: self.relays,
            batch: self.batch,
            leases: Leases::new(),
            follow_ups: FollowUps::new(),
            behind: AtomicBool::new(false),
            unbegun: Locked::new(Vec::new()),
            stuck: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
            stop: Stop::new(),
            wake,
            cancels: bounded(1),
            look: Look::default(),
            idle: Arc::default(),
            idle_relays: Arc::default(),
        })
    }
}

/// A pool whose connections have time limits on silence. It opens none before a handler asks.
fn handlers_pool<C: Backend>(
    url: &str,
    settings: &ConnectionSettings,
    size: usize,
) -> Result<Pool<ConnectionManager<C>>, PoolError> {
    #[derive(Debug)]
    struct Configure(ConnectionSettings);
    impl<C: Backend> CustomizeConnection<C, diesel::r2d2::Error> for Configure {
        fn on_acquire(&self, conn: &mut C) -> Result<(), diesel::r2d2::Error> {
            conn.configure(&self.0).map_err(diesel::r2d2::Error::QueryError)
        }
    }
    Pool::builder()
        .max_size(u32::try_from(size).unwrap_or(u32::MAX))
        .min_idle(Some(0))
        // A round trip per use; a dead connection is noticed when its transaction begins, and replaced.
        .test_on_check_out(false)
        .connection_customizer(Box::new(Configure(settings.clone())))
        .build(ConnectionManager::new(C::pool_url(url)))
}

fn hostname() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.chars().take(255).collect()
    }
}

impl<C: Backend, A> fmt::Debug for Worker<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the URL, which may hold a password, nor the application's state.
        f.debug_struct("Worker")
            .field("threads", &self.threads)
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

/// The kinds, each with the highest version of a payload.
fn newest(serves: &[Served]) -> Vec<(String, i32)> {
    let mut newest = BTreeMap::new();
    for served in serves {
        let version = newest.entry(served.kind.clone()).or_insert(served.version);
        *version = served.version.max(*version);
    }
    newest.into_iter().collect()
}
