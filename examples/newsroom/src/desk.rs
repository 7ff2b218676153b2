//! The desk: claims issues, and has articles written on them in the background.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Error as ConnectionError, Pool, PoolError};
use leasehold::rows::{self, Answer, CommitError, Keeper, NotCommitted, Resolution, RowError, RowLease};
use serde::Serialize;

use crate::generator;
use crate::tables::{Article, DONE, FAILED, IssueView, Press};

/// What a newsroom is run with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The database.
    pub database: String,
    /// The service that writes.
    pub generator: String,
    /// Articles that are written at a time.
    pub writers: usize,
    /// How long an issue stays with a process that has died.
    pub lease: Duration,
    /// Issues to begin with, in an empty database.
    pub issues: usize,
}

/// Claims issues and writes their articles; shared by all that ask.
pub struct Desk<C: Press> {
    pool: Pool<ConnectionManager<C>>,
    keeper: Keeper<C>,
    claimed: Sender<RowLease<C::Issue>>,
    lease: Duration,
}

/// Why the desk could not answer.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// No connection could be had.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The claim failed.
    #[error(transparent)]
    Claim(#[from] RowError),
    /// Another statement failed.
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
    /// The queue's tables could not be made.
    #[error(transparent)]
    Migrate(#[from] leasehold::migrate::MigrateError),
    /// A thread could not be started.
    #[error(transparent)]
    Thread(#[from] io::Error),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Occupied {
    /// The issues that are being written about now, because of this request.
    pub occupied: Vec<i64>,
    /// All others, each with its reason.
    pub others: Vec<Refused>,
}

/// An issue that was asked for and not occupied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The issue.
    pub id: i64,
    /// `busy` (locked at this moment, ask again), `running`, `missing`, or `not ready`.
    pub reason: &'static str,
    /// The issue's status, where it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// All that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// The first issues.
    pub issues: Vec<IssueView>,
    /// The articles on them.
    pub articles: Vec<Article>,
}

/// SQLite's settings for a connection; the server of PostgreSQL has its own.
#[derive(Debug)]
struct Patient;

impl<C: Press> CustomizeConnection<C, ConnectionError> for Patient {
    fn on_acquire(&self, conn: &mut C) -> Result<(), ConnectionError> {
        if C::NAME != "sqlite" {
            return Ok(());
        }
        let settings = "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON";
        conn.batch_execute(settings).map_err(ConnectionError::QueryError)
    }
}

/// The mode is kept in the file, and to change it fails at once while another process does so, too.
fn use_wal<C: Press>(conn: &mut C) -> diesel::QueryResult<()> {
    let mut tries = 0;
    loop {
        match conn.batch_execute("PRAGMA journal_mode = WAL") {
            Err(_) if tries < 100 => thread::sleep(Duration::from_millis(50)),
            done => return done,
        }
        tries += 1;
    }
}

impl<C: Press> Desk<C> {
    /// Prepares the database and starts the writers.
    ///
    /// # Errors
    ///
    /// When the database cannot be had.
    pub fn open(settings: &Settings) -> Result<Arc<Self>, DeskError> {
        let pool = Pool::builder()
            .max_size(8)
            .min_idle(Some(1))
            .connection_customizer(Box::new(Patient))
            .build(ConnectionManager::<C>::new(&settings.database))?;
        let mut conn = pool.get()?;
        if C::NAME == "sqlite" {
            use_wal(&mut *conn)?;
        }
        leasehold::migrate(&mut conn)?;
        conn.prepare(settings.issues)?;
        let (claimed, work) = unbounded();
        for number in 0..settings.writers.max(1) {
            let writer = Writer {
                pool: pool.clone(),
                work: work.clone(),
                generator: settings.generator.clone(),
            };
            thread::Builder::new()
                .name(format!("writer-{number}"))
                .spawn(move || writer.run())?;
        }
        Ok(Arc::new(Self {
            keeper: Keeper::start(&settings.database)?,
            pool,
            claimed,
            lease: settings.lease,
        }))
    }

    /// Claims those of the issues that can be, and has articles written on them: what a person asks for and what the schedule
    /// asks for. Waits for the database, so not on an event loop.
    ///
    /// # Errors
    ///
    /// When the database cannot be had; then nothing is known to be claimed.
    pub fn occupy(&self, ids: &[i64]) -> Result<Occupied, DeskError> {
        let answers = rows::claim::<C::Issue, _>(&mut self.pool.get()?, ids, self.lease)?;
        let (mut occupied, mut others) = (Vec::new(), Vec::new());
        for (id, answer) in answers {
            let (reason, status) = match answer {
                Answer::Claimed(lease) => {
                    self.keeper.keep(&lease);
                    occupied.push(id);
                    // The writers live as long as this does.
                    let _ = self.claimed.send(lease);
                    continue;
                }
                Answer::Busy => ("busy", None),
                Answer::Running => ("running", None),
                Answer::NotReady { status } => ("not ready", Some(status)),
                Answer::Missing => ("missing", None),
            };
            others.push(Refused { id, reason, status });
        }
        Ok(Occupied { occupied, others })
    }

    /// What the page shows.
    ///
    /// # Errors
    ///
    /// When the database cannot be had.
    pub fn look(&self) -> Result<View, DeskError> {
        let (issues, articles) = self.pool.get()?.look(500)?;
        Ok(View { issues, articles })
    }
}

impl<C: Press> fmt::Debug for Desk<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// A thread that writes articles, one after the other.
struct Writer<C: Press> {
    pool: Pool<ConnectionManager<C>>,
    work: Receiver<RowLease<C::Issue>>,
    generator: String,
}

impl<C: Press> Writer<C> {
    /// Until the desk is gone.
    fn run(&self) {
        for lease in &self.work {
            let id = *lease.id();
            if let Err(error) = self.write(lease) {
                log::warn!("issue {id}: {error}");
            }
        }
    }

    /// The slow work first, without a connection; then article and status in one commit. What fails here leaves the issue
    /// to whoever asks next, at once or when the lease has ended.
    fn write(&self, lease: RowLease<C::Issue>) -> Result<(), Box<dyn std::error::Error>> {
        let id = *lease.id();
        let title = self.pool.get()?.title(id)?;
        match generator::ask(&self.generator, &lease.idempotency_key(), &title) {
            Ok(text) => {
                lease.check()?;
                self.commit(lease, &text)
            }
            Err(error) => {
                lease.settle(&mut self.pool.get()?, FAILED)?;
                Err(error)
            }
        }
    }

    fn commit(&self, mut lease: RowLease<C::Issue>, text: &str) -> Result<(), Box<dyn std::error::Error>> {
        let id = *lease.id();
        loop {
            let committed = lease.commit(&mut self.pool.get()?, DONE, |tx| Ok(tx.write_article(id, text)?));
            lease = match committed {
                Ok(()) => return Ok(()),
                Err(CommitError::RolledBack {
                    lease,
                    why: NotCommitted::Conflict(_),
                }) => lease,
                Err(CommitError::Unknown(in_doubt)) => match in_doubt.resolve(&mut self.pool.get()?) {
                    Resolution::Committed => return Ok(()),
                    Resolution::NotCommitted(lease) => lease,
                    Resolution::Refused(refusal) => return Err(refusal.into()),
                    // The lease decides.
                    Resolution::Unknown(in_doubt) => return Err(in_doubt.to_string().into()),
                },
                Err(error) => {
                    let text = error.to_string();
                    if let Some(lease) = error.into_lease() {
                        lease.settle(&mut self.pool.get()?, FAILED)?;
                    }
                    return Err(text.into());
                }
            };
        }
    }
}
