//! Cron schedules: jobs that are enqueued at given times.
//!
//! A schedule is a row of the database, under a name. Any running worker of any program fires it, and each fire time of a
//! schedule enqueues one job over all processes. What becomes of that job changes nothing for the next fire time.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::schedule::{Missed, Schedule};
//! use leasehold::Worker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (url, _conn) = doctest_database();
//! let nightly = Schedule::new("nightly greeting", "0 3 * * *")
//!     .zone("Europe/Berlin")
//!     .missed(Missed::RunAll { at_most: 10 })
//!     .job(&Greet { name: "Berlin".to_owned() });
//! let running = Worker::<SqliteConnection, _>::new(url, ()).register::<Greet>().schedule(nightly).start()?;
//! # drop(running);
//! # Ok(())
//! # }
//! ```
//!
//! The kind itself may have one: `#[job(kind = "clean-up", schedule(cron = "@daily"))]`. At run time any program may
//! [`put()`], [`change()`], [`pause()`], [`resume()`], [`remove()`] and [`list()`] schedules.
//!
//! # Who defines a schedule
//!
//! The row is what counts; a program's code is written into it when one of its workers starts. A start with the same
//! definition changes nothing. One with another definition replaces it, and the last start wins; only starts write, so two
//! versions of a program side by side do not change it to and fro. A program whose payload version is lower than the
//! stored one leaves the row to the newer program.
//!
//! What was [`put()`] or [`change()`]d by a call stays as it is: starts leave it alone. [`pause()`] does not
//! change whose it is. A schedule that disappears from the code stays, and goes on firing, until it is [`remove()`]d; one
//! that is removed while it is in the code comes back with the next start, so pause that one instead.
//!
//! # Cron texts
//!
//! Five fields (minute, hour, day of the month, month, day of the week), or six with seconds in front; or `@yearly`,
//! `@monthly`, `@weekly`, `@daily`, `@hourly`. Fields take `*`, numbers, lists `1,15`, ranges `8-17` and steps `*/10`,
//! `8-17/2`; months and weekdays also names (`JAN`, `MON`), Sunday being 0 or 7. The day of the month may be `L` (the
//! last), `LW` (the last weekday) or `15W` (the weekday next to the 15th), the weekday `MON#2` (the second Monday) or
//! `5L` (the last Friday). With both days given, either will do; `+MON` asks for both. 256 bytes at the most; a day that
//! no year has, as in `0 0 30 2 *`, is refused.
//!
//! # When the clock is changed
//!
//! - Times that are **named one by one** (no `*`, step or range in second, minute and hour: `30 2 * * *`, `0,30 2 * * *`)
//!   happen once on each day. Those in the hour that is left out in spring come when the clock goes on, together; those in
//!   the hour that is shown twice in autumn come the first time.
//! - An **interval** (`*/30 * * * *`, `0 1-3 * * *`) goes by what the clock shows: nothing in the hour that is left out, and
//!   again in the hour that is shown twice.
//!
//! # Missed fire times
//!
//! Fire times at which no program ran are missed; [`Missed`] says what becomes of them. What a paused schedule would have
//! fired is never made up for. The database's clock decides what is due; on time means within a moment, while a worker
//! runs. A schedule that another process adds is seen within [`Worker::sweep_interval`](crate::Worker::sweep_interval).
//!
//! # The job
//!
//! Its run time is the fire time, which the handler gets from [`LeaseGuard::fire_at`], and its idempotency key is
//! `schedule:<name>:<fire time>`. If its kind is unique and the job of an earlier fire time has not ended, that
//! one counts for this fire time, too. Records of fires are kept for 30 days.

use std::time::SystemTime;

use crate::backend::Backend;
use crate::enqueue::{EnqueueError, EnqueueOptions, new_job};
use crate::job::Job;
use crate::lease::LeaseGuard;
use crate::name::{self, NameError};

mod cron;
pub use cron::CronError;

mod missed;
pub use missed::Missed;

mod times;
pub(crate) use times::Times;

mod stored;
use stored::define;

mod manage;
pub(crate) use manage::define_all;
pub use manage::{DefinedBy, ScheduleRecord, change, find, list, pause, put, remove, resume};

mod fire;
pub use fire::FireInfo;
pub(crate) use fire::{Batch, Fired, ScheduleRevision, fire_batch};

/// A cron schedule of jobs; see the [module](self).
///
/// A mistake is told when it is used: by [`Worker::start`](crate::Worker::start), [`put()`] or [`change()`].
#[derive(Debug, Clone)]
pub struct Schedule {
    name: String,
    cron: String,
    zone: String,
    missed: Missed,
    job: Option<Result<crate::backend::NewJob, std::sync::Arc<EnqueueError>>>,
    moves_time: bool,
}

impl Schedule {
    /// A schedule without a job yet. The name, 1 to 128 bytes, identifies it in the database.
    pub fn new(name: impl Into<String>, cron: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cron: cron.into(),
            zone: "UTC".to_owned(),
            missed: Missed::default(),
            job: None,
            moves_time: false,
        }
    }

    /// The time zone in which the cron text is meant, by its name in the IANA database: `Europe/Berlin`. UTC by default.
    ///
    /// The zones' rules are compiled in: after a change of law, update the library.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// What becomes of fire times at which no program ran; [`Missed::RunOnce`] by default.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What it enqueues, with the settings of the kind.
    #[must_use]
    pub fn job<J: Job>(self, job: &J) -> Self {
        self.job_with(job, &EnqueueOptions::new())
    }

    /// As [`Schedule::job`], with a queue, priority and so on of its own. A run time, a delay and an idempotency key are
    /// refused: those are the schedule's.
    #[must_use]
    pub fn job_with<J: Job>(mut self, job: &J, options: &EnqueueOptions) -> Self {
        self.moves_time = options.is_for_one_job();
        self.job = Some(new_job(job, options).map_err(std::sync::Arc::new));
        self
    }
}

/// Why a schedule cannot be used, or was not changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The name cannot be used.
    #[error("the schedule's name: {0}")]
    Name(#[source] NameError),
    /// The cron text cannot be read, or means no day at all.
    #[error("the cron text {text:?}: {source}")]
    Cron {
        /// The text.
        text: String,
        /// What is wrong with it.
        source: CronError,
    },
    /// No such time zone.
    #[error("there is no time zone {zone:?}: use a name of the IANA database, as \"Europe/Berlin\"")]
    Zone {
        /// As it was given.
        zone: String,
    },
    /// A number of missed fire times out of range, or a text that this program does not know.
    #[error("missed fire times: {given:?} is none of \"skip\", \"run once\" and \"run all(1)\" to \"run all(1000)\"")]
    Missed {
        /// As it was given.
        given: String,
    },
    /// There is nothing to enqueue.
    #[error("the schedule {name:?} has no job: give it one with `job`")]
    NoJob {
        /// The schedule.
        name: String,
    },
    /// The job cannot be enqueued.
    #[error("the job of the schedule {name:?}: {source}")]
    Enqueue {
        /// The schedule.
        name: String,
        /// What is wrong with it.
        source: std::sync::Arc<EnqueueError>,
    },
    /// The job's options state a time or an idempotency key.
    #[error("the schedule {name:?} says when its jobs run: give no delay, run time or idempotency key")]
    Options {
        /// The schedule.
        name: String,
    },
    /// A worker was given two schedules of one name.
    #[error("there are two schedules {name:?}: give one of them another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// The schedule has been changed since, or removed: look again before you change it.
    #[error("the schedule {name:?} was changed or removed meanwhile: look again before you change it")]
    Conflict {
        /// The schedule.
        name: String,
        /// Its revision now; `None` if it is gone.
        revision: Option<i64>,
    },
    /// The stored options are of a newer program.
    #[error("the options of the schedule {name:?} cannot be read: {why}")]
    Unreadable {
        /// The schedule.
        name: String,
        /// What cannot be read.
        why: String,
    },
    /// The database's error.
    #[error("{0}")]
    Database(std::sync::Arc<diesel::result::Error>),
}

impl From<diesel::result::Error> for ScheduleError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(std::sync::Arc::new(error))
    }
}

fn check_name(name: &str) -> Result<(), ScheduleError> {
    name::check(name, 128).map_err(ScheduleError::Name)
}

impl<C: Backend> LeaseGuard<'_, C> {
    /// The fire time of the schedule that enqueued this job; `None` if somebody else did.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// #[derive(serde::Serialize, serde::Deserialize, Default, Job)]
    /// #[job(kind = "report", schedule(cron = "0 3 * * *", zone = "Europe/Berlin"))]
    /// struct Report {}
    ///
    /// impl Handler<SqliteConnection> for Report {
    ///     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
    ///         if let Some(at) = lease.fire_at() {
    ///             println!("the report of {at:?}, whenever it runs");
    ///         }
    ///         lease.finish()
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    #[must_use]
    pub fn fire_at(&self) -> Option<SystemTime> {
        fire::fire_time_of(self.idempotency_key())
    }
}
