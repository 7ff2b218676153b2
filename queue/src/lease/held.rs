//! What the runtime keeps of a lease.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::clock::LeaseClock;
use super::fence::{Fence, Refusal};
use super::standing::Standing;
use crate::backend::ClaimedRow;
use crate::trace::JobSpan;

/// What the runtime keeps of a lease, so that it can renew and settle the job whatever the handler does with the guard.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) fence: Fence,
    pub(crate) queue: String,
    pub(crate) kind: String,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) idempotency_key: String,
    pub(crate) lease: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) batch_id: Option<i64>,
    /// Whether other jobs may wait for its end.
    pub(crate) awaited: bool,
    /// What its kind's limits count by.
    pub(crate) limit_key: Option<String>,
    /// From when on the handler is not to begin.
    too_late_at: Option<Instant>,
    clock: LeaseClock,
    begun_at: OnceLock<Instant>,
    /// How long its handler ran, once it has returned.
    ran: OnceLock<Duration>,
    pub(crate) span: JobSpan,
    /// Whether the database knows that its handler begins.
    recorded: AtomicBool,
    standing: Standing,
    cancel_requested: AtomicBool,
    /// When progress was last written, and what.
    told: Mutex<Option<(Instant, u64, u64)>>,
    /// Whether it runs on a thread that is none of the worker's.
    outside: AtomicBool,
}

/// How often progress is written at the most.
const TELL_EVERY: Duration = Duration::from_millis(200);

impl Held {
    /// `sent`: when the claim was sent, so that the local deadline is never later than the database's. `begun`: whether
    /// the claim has recorded that its handler begins.
    pub(crate) fn new(
        row: &ClaimedRow,
        lease_token: Uuid,
        timeout: Option<Duration>,
        sent: Instant,
        begun: bool,
    ) -> Self {
        let lease = Duration::from_millis(row.lease_ms.unsigned_abs());
        Self {
            fence: Fence {
                id: row.id,
                generation: row.generation,
                lease_token,
            },
            queue: row.queue.clone(),
            kind: row.kind.clone(),
            attempt: row.attempt.unsigned_abs(),
            max_attempts: row.max_attempts.unsigned_abs(),
            idempotency_key: row.idempotency_key.clone(),
            lease,
            timeout,
            batch_id: row.batch_id,
            awaited: row.awaited,
            limit_key: row.limit_key.clone(),
            too_late_at: row.expires_in_ms.and_then(|ms| {
                // Counted from the answer: the claim may have waited before it read the clock.
                Instant::now().checked_add(Duration::from_millis(ms.max(0).unsigned_abs()))
            }),
            clock: LeaseClock::new(lease, sent),
            begun_at: OnceLock::new(),
            ran: OnceLock::new(),
            span: JobSpan::default(),
            recorded: AtomicBool::new(begun),
            standing: Standing::new(),
            cancel_requested: AtomicBool::new(false),
            told: Mutex::new(None),
            outside: AtomicBool::new(false),
        }
    }

    /// The lease runs anew from when the accepted heartbeat was *sent*.
    pub(crate) fn renewed(&self, sent: Instant) {
        self.clock.renewed(self.lease, sent);
    }

    /// A heartbeat was sent that neither renewed the lease nor lost it.
    pub(crate) fn asked(&self, sent: Instant) {
        self.clock.asked(sent);
    }

    pub(crate) fn beat_due_in(&self, now: Instant) -> Duration {
        self.clock.beat_due_in(now)
    }

    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.clock.remaining(now)
    }

    /// Whether the job has expired before its handler began.
    pub(crate) fn is_too_late(&self, now: Instant) -> bool {
        self.too_late_at.is_some_and(|at| now >= at)
    }

    pub(crate) fn begin(&self, now: Instant) {
        let _ = self.begun_at.set(now);
        self.span.open(&self.info());
    }

    /// That its handler begins was recorded.
    pub(crate) fn mark_recorded(&self) {
        self.recorded.store(true, Ordering::Release);
    }

    /// Whether its handler has begun and the database does not know it: a crash would cost no attempt.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.begun_at.get().is_some() && !self.recorded.load(Ordering::Acquire)
    }

    /// How long the handler may still run; `None` when it has no limit, has not begun, has returned or was timed out.
    pub(crate) fn times_out_in(&self, now: Instant) -> Option<Duration> {
        let (timeout, begun) = (self.timeout?, *self.begun_at.get()?);
        self.standing
            .is_in_time()
            .then(|| timeout.saturating_sub(now.saturating_duration_since(begun)))
    }

    /// See [`Standing::time_out`], and so on.
    pub(crate) fn time_out(&self) -> bool {
        self.standing.time_out()
    }

    pub(crate) fn is_timed_out(&self) -> bool {
        self.standing.is_timed_out()
    }

    pub(crate) fn replace(&self) -> bool {
        self.standing.replace()
    }

    /// It begins on a thread of the caller's, which no other thread replaces.
    pub(crate) fn begin_outside(&self) {
        self.outside.store(true, Ordering::Release);
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.outside.load(Ordering::Acquire)
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.standing.is_replaced()
    }

    /// How long its handler has run, or ran.
    pub(crate) fn ran(&self) -> Option<Duration> {
        let ran = self.ran.get().copied();
        ran.or_else(|| self.begun_at.get().map(Instant::elapsed))
    }

    pub(crate) fn mark_returned(&self) {
        if let Some(begun) = self.begun_at.get() {
            let _ = self.ran.set(begun.elapsed());
        }
        self.standing.mark_returned();
    }

    pub(crate) fn mark_lost(&self, refusal: Refusal) -> bool {
        self.standing.mark_lost(refusal)
    }

    pub(crate) fn mark_committed(&self) {
        self.standing.mark_committed();
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.standing.is_committed()
    }

    pub(crate) fn request_cancel(&self) -> bool {
        !self.cancel_requested.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_cancel_requested(&self) -> bool {
        self.cancel_requested.load(Ordering::Acquire)
    }

    /// Whether this progress is to be written: some time after the last one, or because it is the last one; not twice.
    pub(crate) fn progress_is_due(&self, done: u64, total: u64, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = match *told {
            None => true,
            Some((_, was_done, was_total)) if (was_done, was_total) == (done, total) => false,
            Some((at, ..)) => done == total || now.saturating_duration_since(at) >= TELL_EVERY,
        };
        if due {
            *told = Some((now, done, total));
        }
        due
    }

    /// Why the lease is not to be trusted any more, if it is not.
    pub(crate) fn lost(&self) -> Option<Refusal> {
        self.standing.lost(|| self.remaining(Instant::now()).is_zero())
    }
}
