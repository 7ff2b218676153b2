//! A thread that renews the leases of rows, so that whoever works on them need not think of heartbeats.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use diesel::result::Error;

use super::lease::{HeldRow, beat};
use super::{RowError, RowLease, RowOn};
use crate::backend::{Backend, ConnectionSettings};
use crate::worker::Control;

/// How long to sleep when no lease is kept; a new one wakes the thread.
const IDLE: Duration = Duration::from_secs(60);

/// Renews leases from one background thread, on a connection of its own: each a third of its length after the last time,
/// those of one table in one statement.
///
/// A lease is renewed for as long as it exists: from [`Keeper::keep`] until it is committed, settled, dropped or lost. While
/// the database is away nothing is known, and each lease lasts until its end by this process's clock
/// ([`RowLease::is_lost`]). Dropping the keeper ends the thread.
///
/// ```
/// # include!("doctest_setup.rs");
/// # use leasehold::rows::Keeper;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, mut conn) = doctest_issues();
/// let keeper = Keeper::<SqliteConnection>::start(url)?;
/// for lease in rows::claim_from::<Issue, _, _>(&mut conn, issue::table.select(issue::id), 10, Duration::from_secs(30))? {
///     keeper.keep(&lease);
///     // … an hour of work, which looks at `lease.is_lost()` now and then.
///     lease.settle(&mut conn, "DONE")?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Keeper<C: Backend> {
    leases: Option<Sender<Weak<HeldRow>>>,
    thread: Option<JoinHandle<()>>,
    connection: PhantomData<fn() -> C>,
}

impl<C: Backend> Keeper<C> {
    /// Starts the thread. It connects when there is something to renew, and again when its connection breaks.
    ///
    /// # Errors
    ///
    /// The system's, when it cannot start a thread.
    pub fn start(url: impl Into<String>) -> io::Result<Self> {
        let (leases, new) = unbounded();
        let url = url.into();
        let thread = thread::Builder::new()
            .name("leasehold-rows".to_owned())
            .spawn(move || run::<C>(&url, &new))?;
        Ok(Self {
            leases: Some(leases),
            thread: Some(thread),
            connection: PhantomData,
        })
    }

    /// Renews this lease from now on, each time for the length that it has.
    pub fn keep<R: RowOn<C>>(&self, lease: &RowLease<R>) {
        if let Some(leases) = &self.leases {
            // Received for as long as the keeper lives.
            let _ = leases.send(Arc::downgrade(&lease.held));
        }
    }
}

impl<C: Backend> Drop for Keeper<C> {
    fn drop(&mut self) {
        drop(self.leases.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<C: Backend> fmt::Debug for Keeper<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

fn run<C: Backend>(url: &str, new: &Receiver<Weak<HeldRow>>) {
    let mut control = Control::<C>::new("row leases", url, &ConnectionSettings::default());
    let mut kept: Vec<Weak<HeldRow>> = Vec::new();
    let mut wait = IDLE;
    loop {
        match new.recv_timeout(wait) {
            Ok(lease) => kept.push(lease),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        kept.extend(new.try_iter());
        let held: Vec<Arc<HeldRow>> = kept.iter().filter_map(Weak::upgrade).filter(is_renewed).collect();
        kept = held.iter().map(Arc::downgrade).collect();
        let now = Instant::now();
        // Those due soon come along: fewer statements, and none of them comes late.
        let due = |held: &&Arc<HeldRow>| held.clock.beat_due_in(now) <= held.clock.lease() / 6;
        let any_due = held.iter().any(|held| held.clock.beat_due_in(now).is_zero());
        let reached = !any_due || beat_all(&mut control, held.iter().filter(due).cloned().collect());
        let next = held.iter().map(|held| held.clock.beat_due_in(Instant::now())).min();
        wait = if reached {
            next.unwrap_or(IDLE)
        } else {
            control.next_wait()
        };
    }
}

fn is_renewed(held: &Arc<HeldRow>) -> bool {
    !held.is_ended() && !held.is_refused()
}

/// Renews table by table; false while the database is away. Failing is *unknown*, not lost.
fn beat_all<C: Backend>(control: &mut Control<C>, mut due: Vec<Arc<HeldRow>>) -> bool {
    while let Some(first) = due.first() {
        let table = Arc::clone(&first.table);
        let (of_table, others) = due.into_iter().partition::<Vec<_>, _>(|held| held.table == table);
        due = others;
        let leases: Vec<_> = of_table.iter().map(|held| (&**held, held.clock.lease())).collect();
        let beaten = control.run(|conn| {
            beat(conn, &leases).map_err(|error| match error {
                RowError::Database(error) => error,
                other => Error::QueryBuilderError(other.into()),
            })
        });
        if beaten.is_err() {
            return false;
        }
    }
    true
}
