//! Job types whose handlers do what a test says, when it says so.

use std::thread::ThreadId;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use diesel::QueryResult;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use leasehold::__private::Fence;
use leasehold::__private::{ClaimRequest, ClaimedRow, Served};
use leasehold::inspect::{self, JobRecord};
use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, LeaseWatch, Outcome, Refusal, Schema};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::TestDb;

mod charge;
pub use charge::Charge;

/// How long a test waits for what must come: far longer than it takes on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// Longer than any test: what takes a poll of this interval never comes.
pub const HOUR: Duration = Duration::from_secs(3600);

/// A connection that writes a row into the table `effects`: the business write of the tests.
pub trait Effects: Backend {
    /// Writes the row.
    ///
    /// # Errors
    ///
    /// The database's.
    fn note(&mut self, n: i64) -> QueryResult<usize>;
}

macro_rules! effects {
    ($connection:ty) => {
        impl Effects for $connection {
            fn note(&mut self, n: i64) -> QueryResult<usize> {
                diesel::sql_query("INSERT INTO effects (n) VALUES ($1)")
                    .bind::<BigInt, _>(n)
                    .execute(self)
            }
        }
    };
}
#[cfg(feature = "sqlite")]
effects!(diesel::SqliteConnection);
#[cfg(feature = "postgres")]
effects!(diesel::PgConnection);

/// Makes the queue's tables and the table `effects`; a connection to enqueue on.
pub fn prepare<Db: TestDb>(db: &mut Db) -> Db::Connection {
    let mut conn = db.connect();
    leasehold::migrate(&mut conn).expect("an empty database can be migrated");
    db.sql("CREATE TABLE effects (n bigint NOT NULL)");
    conn
}

/// The job, wherever it is.
#[track_caller]
pub fn job<C: Backend>(conn: &mut C, id: i64) -> JobRecord {
    inspect::job(conn, &Schema::default(), id)
        .expect("the database can be read")
        .expect("no job is ever removed")
}

/// Claims one job of the kind as a process would that then dies: nobody renews it.
#[track_caller]
pub fn claim_and_die<J: Job, C: Backend>(conn: &mut C, begun: bool) -> (ClaimedRow, Fence) {
    let lease_token = Uuid::new_v4();
    let serves = [Served {
        queue: J::QUEUE.to_owned(),
        kind: J::KIND.to_owned(),
        version: i32::try_from(J::VERSION).expect("a small number"),
    }];
    let request = ClaimRequest {
        serves: &serves,
        limit: 1,
        lease_token,
        worker: Uuid::new_v4(),
        begun,
        counted: &[],
        oldest: false,
        behind: &[],
    };
    let mut rows = conn.claim(&Schema::default(), &request).expect("a claim");
    let row = rows.pop().expect("a job is ready");
    let fence = Fence {
        id: row.id,
        generation: row.generation,
        lease_token,
    };
    (row, fence)
}

/// Tries to complete a job as the process would that claimed it; whether it was still its own.
#[track_caller]
pub fn finish<C: Backend>(conn: &mut C, fence: &Fence) -> bool {
    let finished = conn.finish(&Schema::default(), std::slice::from_ref(fence));
    finished.expect("the database answers") == [fence.id]
}

/// What a [`Step`] does with its lease.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub enum Then {
    /// Commits, with a row in `effects`.
    Commit,
    /// Finishes.
    Finish,
    /// Fails until this attempt, which commits.
    FailUntil(u32),
    /// Panics inside the commit, after its write, until this attempt, which commits.
    PanicUntil(u32),
    /// Snoozes for a moment unless it has snoozed before, then commits.
    Snooze,
    /// Discards the job.
    Discard,
    /// Cancels the job.
    Cancel,
}

/// A job that may wait for the test's word before it goes on.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "step", max_attempts = 5, backoff = "fixed(20ms)")]
pub struct Step {
    /// Names it, in `effects` too.
    pub n: i64,
    /// Whether it waits for [`Begun::go`].
    pub waits: bool,
    /// What it does then.
    pub then: Then,
}

/// A [`Step`] that waits and commits, of a kind that has a timeout.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "hasty", max_attempts = 5, backoff = "fixed(20ms)", timeout = "3s")]
pub struct Hasty {
    /// What it does.
    pub step: Step,
}

/// Commits one row, and knows of no test.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "note", max_attempts = 100, backoff = "fixed(20ms)")]
pub struct Note {
    /// Names it in `effects`.
    pub n: i64,
}

/// Takes a moment, as work outside of the database does, and then commits one row.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "work", max_attempts = 100, backoff = "fixed(20ms)", lease = "2s")]
pub struct Work {
    /// Names it in `effects`.
    pub n: i64,
}

/// How a handler takes its whole process along.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub enum Death {
    /// `abort`.
    Abort,
    /// A panic while another one unwinds.
    DoublePanic,
    /// A recursion without end.
    StackOverflow,
    /// More memory than there is.
    OutOfMemory,
    /// `exit(0)`, which looks like success.
    Exit,
}

/// Ends its process at every attempt.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "deadly", max_attempts = 2, backoff = "fixed(20ms)", lease = "1s")]
pub struct Deadly {
    /// In this way.
    pub death: Death,
}

impl Step {
    /// Waits for the test's word, and commits.
    pub fn waiting(n: i64) -> Self {
        Self {
            n,
            waits: true,
            then: Then::Commit,
        }
    }

    /// Does this at once.
    pub fn now(n: i64, then: Then) -> Self {
        Self { n, waits: false, then }
    }
}

/// A handler that has begun. It waits until [`Begun::go`], or until this is dropped.
#[derive(Debug)]
pub struct Begun {
    /// Which one.
    pub n: i64,
    /// Its job.
    pub id: i64,
    /// Its attempt.
    pub attempt: u32,
    /// Its generation.
    pub generation: i64,
    /// Its thread.
    pub thread: ThreadId,
    /// Its lease.
    pub watch: LeaseWatch,
    go: Sender<()>,
}

impl Begun {
    /// Lets the handler go on.
    pub fn go(self) {
        drop(self.go);
    }
}

/// A handler that is about to return.
#[derive(Debug)]
pub struct Ended {
    /// Which one.
    pub n: i64,
    /// Its attempt.
    pub attempt: u32,
    /// `Ok` if its lease was given up properly.
    pub result: Result<(), String>,
    /// How the database refused it.
    pub refusal: Option<Refusal>,
}

/// The state that handlers are given.
#[derive(Debug, Clone)]
pub struct App {
    begun: Sender<Begun>,
    ended: Sender<Ended>,
}

/// The test's end of an [`App`].
#[derive(Debug)]
pub struct Remote {
    begun: Receiver<Begun>,
    ended: Receiver<Ended>,
}

/// A state for handlers, and the test's end of it.
pub fn app() -> (App, Remote) {
    let ((begun, sees_begun), (ended, sees_ended)) = (unbounded(), unbounded());
    let remote = Remote {
        begun: sees_begun,
        ended: sees_ended,
    };
    (App { begun, ended }, remote)
}

impl Remote {
    /// The next handler that begins.
    #[track_caller]
    pub fn begun(&self) -> Begun {
        self.begun.recv_timeout(SOON).expect("a handler begins")
    }

    /// The next handler that ends.
    #[track_caller]
    pub fn ended(&self) -> Ended {
        self.ended.recv_timeout(SOON).expect("a handler ends")
    }

    /// Both channels, for a test that waits for either.
    pub fn into_channels(self) -> (Receiver<Begun>, Receiver<Ended>) {
        (self.begun, self.ended)
    }

    /// Whether no further handler has begun so far.
    pub fn nothing_begun(&self) -> bool {
        self.begun.try_recv().is_err()
    }

    /// Whether no further handler has ended so far.
    pub fn nothing_ended(&self) -> bool {
        self.ended.try_recv().is_err()
    }
}

impl<C: Effects> Handler<C, App> for Step {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
        let (n, attempt) = (self.n, lease.attempt());
        let (begun, word) = about_to_begin(n, &lease);
        let _ = app.begun.send(begun);
        if self.waits {
            let _ = word.recv();
        }
        let outcome = self.then.run(n, lease);
        tell_end(app, n, attempt, &outcome);
        outcome
    }
}

/// What the test is told of a handler, and where its word arrives.
fn about_to_begin<C: Backend>(n: i64, lease: &LeaseGuard<'_, C>) -> (Begun, Receiver<()>) {
    let (go, word) = bounded(0);
    let begun = Begun {
        n,
        id: lease.job_id(),
        attempt: lease.attempt(),
        generation: lease.generation(),
        thread: std::thread::current().id(),
        watch: lease.watch(),
        go,
    };
    (begun, word)
}

fn tell_end(app: &App, n: i64, attempt: u32, outcome: &Outcome<'_>) {
    let error = outcome.as_ref().err();
    let _ = app.ended.send(Ended {
        n,
        attempt,
        result: error.map_or(Ok(()), |error| Err(error.to_string())),
        refusal: error.and_then(JobError::refusal).cloned(),
    });
}

impl<C: Effects> Handler<C, App> for Hasty {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
        self.step.run(lease, app)
    }
}

impl<C: Effects, A> Handler<C, A> for Deadly {
    fn run<'j>(self, _: LeaseGuard<'j, C>, _: &A) -> Outcome<'j> {
        self.death.strike()
    }
}

impl Death {
    fn strike(self) -> ! {
        struct PanicsAgain;
        impl Drop for PanicsAgain {
            fn drop(&mut self) {
                panic!("while the first one unwinds");
            }
        }
        #[expect(unconditional_recursion, reason = "until the stack is used up")]
        fn recurse(depth: u64) -> u64 {
            std::hint::black_box([depth; 64])[0] + recurse(depth + 1)
        }
        match self {
            Self::Abort => std::process::abort(),
            Self::DoublePanic => {
                let _again = PanicsAgain;
                panic!("the first one");
            }
            Self::StackOverflow => std::process::exit(i32::from(recurse(0) == 0)),
            Self::OutOfMemory => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 4096]>()),
            Self::Exit => std::process::exit(0),
        }
    }
}

impl<C: Effects, A> Handler<C, A> for Note {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &A) -> Outcome<'j> {
        Then::Commit.run(self.n, lease)
    }
}

impl<C: Effects, A> Handler<C, A> for Work {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &A) -> Outcome<'j> {
        std::thread::sleep(Duration::from_millis(30));
        Then::Commit.run(self.n, lease)
    }
}

impl Then {
    fn run<C: Effects>(self, n: i64, lease: LeaseGuard<'_, C>) -> Outcome<'_> {
        let attempt = lease.attempt();
        let is_first_lease = lease.generation() == 1;
        match self {
            Self::Finish => lease.finish(),
            Self::FailUntil(good) if attempt < good => Err(JobError::retry(format!("attempt {attempt} fails"))),
            Self::PanicUntil(good) if attempt < good => lease.commit(|tx| {
                tx.note(n)?;
                panic!("attempt {attempt} panics")
            }),
            Self::Snooze if is_first_lease => lease.snooze(Duration::from_millis(20)),
            Self::Discard => Err(JobError::discard("not to be done")),
            Self::Cancel => lease.cancel("not needed"),
            Self::Commit | Self::FailUntil(_) | Self::PanicUntil(_) | Self::Snooze => lease.commit(|tx| {
                tx.note(n)?;
                Ok(())
            }),
        }
    }
}
