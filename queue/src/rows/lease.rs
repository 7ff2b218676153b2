//! The lease of a row, and its heartbeat.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::refusal::is_of;
use super::{IdOf, OwnedRow, RowError, RowOn, RowRefusal, RowTable, by_itself, milliseconds};
use crate::backend::{AsBackend, Backend, RowFence};
use crate::lease::LeaseClock;

/// Leases in one statement; each statement commits by itself, so no commit waits long for a heartbeat.
const CHUNK: usize = 500;

/// Proof that a row is the caller's, for as long as the lease lasts.
///
/// It is given up by [`RowLease::commit`] or [`RowLease::settle`]. Dropped, the row stays as it is until the lease has
/// ended, and can be claimed again then.
#[must_use = "a lease that is dropped keeps its row from others until it ends"]
pub struct RowLease<R: OwnedRow> {
    pub(super) held: Arc<HeldRow>,
    id: IdOf<R>,
    row: PhantomData<fn() -> R>,
}

/// What is known of a lease in this process.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(super) table: Arc<RowTable>,
    pub(super) fence: RowFence,
    pub(super) clock: LeaseClock,
    refusal: OnceLock<RowRefusal>,
    /// By its owner: there is nothing to renew.
    ended: AtomicBool,
}

/// What a heartbeat found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Heartbeat {
    /// The lease was renewed.
    Renewed,
    /// The row is locked by somebody at this moment: nothing is known. Ask again before the lease ends.
    Skipped,
    /// The row is not the caller's any more.
    Lost(RowRefusal),
}

impl<R: OwnedRow> RowLease<R> {
    pub(super) fn new(id: IdOf<R>, table: Arc<RowTable>, fence: RowFence, lease: Duration, sent: Instant) -> Self {
        let held = HeldRow {
            table,
            fence,
            clock: LeaseClock::new(lease, sent),
            refusal: OnceLock::new(),
            ended: AtomicBool::new(false),
        };
        Self {
            held: Arc::new(held),
            id,
            row: PhantomData,
        }
    }

    /// The row's id.
    #[must_use]
    pub fn id(&self) -> &IdOf<R> {
        &self.id
    }

    /// The generation of this lease. Each claim of the row makes it greater by one, also a claim whose answer was lost;
    /// nothing else changes it.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.held.fence.generation
    }

    /// The table and the id: the same text for every lease of this row, what an outside system needs to recognise a
    /// repeated request. If a row's work may be asked for again after it has ended, add what tells the two apart.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.held.name()
    }

    /// How long the lease lasts if no further heartbeat gets through, by this process's clock.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.clock.remaining(Instant::now())
    }

    /// Whether the lease is lost as far as this process knows. Who works long looks here and stops early; the database
    /// decides at the commit in any case.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.lost().is_some()
    }

    /// As [`RowLease::is_lost`], for `?` between the steps of long work.
    ///
    /// # Errors
    ///
    /// The refusal, once the lease is lost.
    pub fn check(&self) -> Result<(), RowRefusal> {
        self.held.lost().map_or(Ok(()), Err)
    }

    /// Renews the lease, to end `lease` from now by the database's clock. Never waits for a lock of the row. A third of the
    /// lease is a good interval; a [`Keeper`](super::Keeper) does it by itself.
    ///
    /// ```
    /// # include!("doctest_setup.rs");
    /// # use leasehold::rows::Heartbeat;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_, mut conn) = doctest_issues();
    /// # let lease = doctest_lease(&mut conn);
    /// match lease.heartbeat(&mut conn, Duration::from_secs(60))? {
    ///     Heartbeat::Renewed => {}
    ///     Heartbeat::Skipped => println!("nothing is known, ask again soon"),
    ///     Heartbeat::Lost(refusal) => return Err(refusal.into()),
    /// }
    /// # assert!(lease.remaining() > Duration::from_secs(30));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowError::InTransaction`], before anything is asked; else the database's. Then nothing is known, and the lease lasts
    /// as long as it did.
    pub fn heartbeat<C>(&self, conn: &mut C, lease: Duration) -> Result<Heartbeat, RowError>
    where
        C: AsBackend,
        R: RowOn<C::Connection>,
    {
        let beats = heartbeat(conn, &[self], lease)?;
        Ok(beats.into_iter().next().unwrap_or(Heartbeat::Skipped))
    }
}

impl<R: OwnedRow> fmt::Debug for RowLease<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowLease")
            .field("id", &self.id)
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// Renews many leases of one row type together, each to end `lease` from now; one answer for each, in their order.
///
/// ```
/// # include!("doctest_setup.rs");
/// # use leasehold::rows::Heartbeat;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, mut conn) = doctest_issues();
/// let leases = rows::claim_from::<Issue, _, _>(&mut conn, issue::table.select(issue::id), 10, Duration::from_secs(60))?;
/// let beats = rows::heartbeat(&mut conn, &leases.iter().collect::<Vec<_>>(), Duration::from_secs(60))?;
/// assert_eq!(beats, [Heartbeat::Renewed, Heartbeat::Renewed]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`RowLease::heartbeat`]. Leases of an earlier chunk of 500 may have been renewed.
pub fn heartbeat<R, C>(conn: &mut C, leases: &[&RowLease<R>], lease: Duration) -> Result<Vec<Heartbeat>, RowError>
where
    C: AsBackend,
    R: RowOn<C::Connection>,
{
    let held: Vec<(&HeldRow, Duration)> = leases.iter().map(|of| (&*of.held, lease)).collect();
    beat(conn.as_backend(), &held)
}

/// Renews leases of one table, each for its own length.
pub(super) fn beat<C: Backend>(conn: &mut C, leases: &[(&HeldRow, Duration)]) -> Result<Vec<Heartbeat>, RowError> {
    let mut answers = Vec::with_capacity(leases.len());
    for chunk in leases.chunks(CHUNK) {
        let table = &chunk[0].0.table;
        let fences: Vec<_> = chunk
            .iter()
            .map(|(held, lease)| (held.fence.clone(), milliseconds(*lease)))
            .collect();
        let sent = Instant::now();
        let beats = by_itself(conn, |conn| Ok(conn.heartbeat_rows(table, &fences)?))?;
        let renewed: HashMap<&str, bool> = beats.iter().map(|beat| (beat.id.as_str(), beat.renewed)).collect();
        for (held, lease) in chunk {
            held.clock.asked(sent);
            answers.push(match renewed.get(held.fence.id.as_str()) {
                Some(true) => {
                    held.clock.renewed(*lease, sent);
                    Heartbeat::Renewed
                }
                Some(false) => Heartbeat::Skipped,
                None => held.gone(conn)?,
            });
        }
    }
    Ok(answers)
}

impl HeldRow {
    /// The table and the id.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.table.plain_name(), self.fence.id)
    }

    /// The row is not running under this lease any more: reads why.
    fn gone<C: Backend>(&self, conn: &mut C) -> Result<Heartbeat, RowError> {
        let row = conn.read_row(&self.table, &self.fence.id)?;
        let Some(refusal) = RowRefusal::of(&self.table, &self.fence, row.as_ref()) else {
            return Ok(Heartbeat::Skipped);
        };
        // By its owner, who is about to know.
        if row.as_ref().is_some_and(|row| is_of(row, &self.fence)) {
            self.mark_ended();
        } else {
            self.mark_lost(refusal.clone());
        }
        Ok(Heartbeat::Lost(refusal))
    }

    pub(super) fn mark_lost(&self, refusal: RowRefusal) {
        let text = refusal.to_string();
        if !self.is_ended() && self.refusal.set(refusal).is_ok() {
            log::warn!("lease lost {}: {text}", self.name());
        }
    }

    pub(super) fn mark_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Why the lease is not to be trusted any more, if it is not.
    pub(super) fn lost(&self) -> Option<RowRefusal> {
        let expired = || {
            self.clock
                .remaining(Instant::now())
                .is_zero()
                .then_some(RowRefusal::Expired)
        };
        self.refusal.get().cloned().or_else(expired)
    }

    /// Whether the database has said that the lease is lost.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.get().is_some()
    }
}
