//! The mark that an idle process has in the database, and why no enqueue is missed by it.
//!
//! `NOTIFY` takes a lock that all commits of a server with notifications queue for, so an enqueue sends one only if somebody
//! would use it. It finds out by two advisory locks, named after the channel, which are no rows: they are the same in every
//! snapshot and isolation level, are gone with their session, need no right, and cost a microsecond.
//!
//! - `IDLE` is the mark. The session that listens for an idle process shares it.
//! - `SILENT` is shared by each transaction that enqueues, to its end, so by all those that did not notify, too.
//!
//! An enqueue takes `SILENT` first and looks then whether anybody has `IDLE`. The listener takes `IDLE` first, tries `SILENT`
//! alone then, and makes its worker look once more. Say an enqueue was silent: it saw no mark, so its `SILENT` is older than
//! the mark. Either its transaction has ended when the listener tries `SILENT`, and the worker's look sees its jobs; or it is
//! still open, the try fails, and the listener tries again, and makes the worker look, until it has succeeded. So an enqueue
//! in a transaction of hours is not missed either, and the worst is a look each second for as long as it is open.

use std::time::{Duration, Instant};

use super::session::{ListenError, Session};
use crate::backend::postgres::{IDLE, SILENT};
use crate::worker::idle::{Duty, Idle};

/// How soon `SILENT` is tried again, twice as late each time up to the longest.
const FIRST_TRY: Duration = Duration::from_millis(5);
const LONGEST_TRY: Duration = Duration::from_secs(1);
/// How soon the mark is set again when somebody was just looking for it.
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// The mark of one channel, and whom it wakes.
pub(super) struct Mark<'l> {
    idle: &'l Idle,
    wake: &'l dyn Fn(),
    set: String,
    look_again: String,
    remove: String,
    /// Nothing is asked of the server before.
    not_before: Option<Instant>,
    /// Transactions were open when the mark was set: when to look again, and how long that was waited for.
    open: Option<(Instant, Duration)>,
    /// A notification that is yet to be passed on.
    wake_at: Option<Instant>,
}

/// What comes next.
pub(super) enum Next {
    /// Something was asked of the server, which may have said more than the answer.
    TakeNotifications,
    Wait(Option<Duration>),
}

impl<'l> Mark<'l> {
    pub(super) fn new(channel: &str, idle: &'l Idle, wake: &'l dyn Fn()) -> Self {
        // What was put in is a number or the name of a schema, see `Schema::named`.
        let lock = |class: i32| format!("({class}, pg_catalog.hashtext('{channel}'))");
        let silent = format!(
            "CASE WHEN pg_catalog.pg_try_advisory_xact_lock{} THEN 'none' ELSE 'open' END",
            lock(SILENT)
        );
        Self {
            idle,
            wake,
            set: format!(
                "SELECT CASE WHEN pg_catalog.pg_try_advisory_lock_shared{} THEN {silent} ELSE 'busy' END,
                    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks
                     WHERE locktype = 'advisory' AND classid = {IDLE} AND objid = pg_catalog.hashtext('{channel}')::pg_catalog.oid
                       AND objsubid = 2 AND mode = 'ShareLock' AND granted
                       AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))",
                lock(IDLE)
            ),
            look_again: format!("SELECT {silent}"),
            remove: format!("SELECT pg_catalog.pg_advisory_unlock_shared{}", lock(IDLE)),
            not_before: None,
            open: None,
            wake_at: None,
        }
    }

    /// So many notifications came.
    pub(super) fn heard(&mut self, notifications: usize, session: &mut Session<'_>) -> Result<(), ListenError> {
        if notifications == 0 {
            return Ok(());
        }
        if self.idle.is_flooded(notifications) {
            self.remove(session)?;
            (self.wake)();
            return Ok(());
        }
        let at = Instant::now() + self.idle.wait_before_waking();
        self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at)));
        self.pass_on();
        Ok(())
    }

    fn pass_on(&mut self) {
        if self.wake_at.is_some_and(|at| at <= Instant::now()) {
            self.wake_at = None;
            (self.wake)();
        }
    }

    /// Does what is due.
    pub(super) fn tend(&mut self, session: &mut Session<'_>) -> Result<Next, ListenError> {
        self.pass_on();
        let now = Instant::now();
        let wait = match self.idle.duty() {
            Duty::Set if self.not_before.is_none_or(|at| at <= now) => {
                self.set(session)?;
                return Ok(Next::TakeNotifications);
            }
            Duty::Set => self.not_before,
            Duty::Remove => {
                self.remove(session)?;
                return Ok(Next::TakeNotifications);
            }
            Duty::Wait(time) => time.map(|time| now + time),
        };
        if let Some((at, waited)) = self.open
            && at <= now
        {
            let answer = session.ask(&self.look_again)?;
            self.open = is_open(&answer).then(|| again(waited));
            // Some may have ended, if not all.
            (self.wake)();
            return Ok(Next::TakeNotifications);
        }
        let times = [wait, self.wake_at, self.open.map(|(at, _)| at)];
        let first = times.into_iter().flatten().min();
        Ok(Next::Wait(first.map(|at| at.saturating_duration_since(now))))
    }

    fn set(&mut self, session: &mut Session<'_>) -> Result<(), ListenError> {
        let answer = session.ask(&self.set)?;
        if answer.first().is_none_or(|answer| answer == "busy") {
            self.not_before = Some(Instant::now() + BUSY_WAIT);
            return Ok(());
        }
        self.not_before = None;
        self.open = is_open(&answer).then(|| again(FIRST_TRY / 2));
        self.idle
            .marked(answer.get(1).and_then(|count| count.parse().ok()).unwrap_or(1));
        (self.wake)();
        Ok(())
    }

    fn remove(&mut self, session: &mut Session<'_>) -> Result<(), ListenError> {
        self.open = None;
        session.ask(&self.remove).map(drop)
    }
}

impl Drop for Mark<'_> {
    /// Its session ends, and the mark with it.
    fn drop(&mut self) {
        self.idle.unmarked();
    }
}

fn is_open(answer: &[String]) -> bool {
    answer.first().is_some_and(|answer| answer == "open")
}

fn again(waited: Duration) -> (Instant, Duration) {
    let wait = (waited * 2).min(LONGEST_TRY);
    (Instant::now() + wait, wait)
}
