//! Where claimed jobs come from: one connection that claims, and waits when there is nothing to claim.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};
use uuid::Uuid;

use super::Shared;
use super::control::{Control, Failure, Rest, spread};
use super::cursor::{self, Cursor, Start};
use super::executor::Claimed;
use crate::backend::{Backend, ClaimRequest, ClaimedRow, Served};
use crate::claim::{self, Found};
use crate::lease::{Fence, Held};

/// Rows that one statement makes claimable.
const PROMOTE_LIMIT: i64 = 1000;
/// How long to wait when everything is locked by others: they commit soon.
const LOCKED_WAIT: Duration = Duration::from_millis(10);
/// How long to wait after a claim that took all there was, before the next one makes sure of that.
const SHORT_REST: Duration = Duration::from_millis(50);

pub(crate) struct Source<'a, C: Backend, A> {
    shared: &'a Shared<C, A>,
    control: Control<C>,
    wake: Receiver<()>,
    /// A claim whose answer was lost: its token, when it was sent, and whether it recorded that handlers begin.
    in_doubt: Option<(Uuid, Instant, bool)>,
    promote_at: Instant,
    promote_rest: Rest,
    /// Which lane is claimed first goes round with it.
    claims: usize,
    /// Where each lane is claimed from.
    cursors: Vec<Cursor>,
    /// Whether the last claim took fewer jobs than it asked for.
    took_all: bool,
    /// What the database said when it last changed; see [`Connect::wait_for_change`](crate::backend::Connect).
    seen: i64,
}

/// What a thread does next.
enum Next {
    Jobs(Vec<Claimed>),
    /// Others have locked what is due.
    Locked,
    /// Something is due after this time.
    Due(Duration),
    Empty,
}

impl<'a, C: Backend, A: Send + Sync + 'static> Source<'a, C, A> {
    pub(crate) fn new(shared: &'a Shared<C, A>, purpose: &'static str, wake: Receiver<()>) -> Self {
        let control = Control::new(purpose, &shared.url, &shared.settings);
        Self {
            shared,
            control,
            wake,
            in_doubt: None,
            promote_at: Instant::now(),
            promote_rest: Rest::default(),
            claims: 0,
            cursors: shared.lanes.iter().map(|lane| Cursor::new(&lane.serves)).collect(),
            took_all: false,
            seen: 0,
        }
    }

    /// Claims up to `limit` jobs, registered so that they are renewed from now on. Without any it has waited until
    /// something may be due, or until the worker stops; or not, if it may not `rest`.
    pub(crate) fn claim(&mut self, limit: usize, begun: bool, rest: bool) -> Vec<Claimed> {
        if self.shared.selected_only {
            self.wait_for_wake_up();
            return Vec::new();
        }
        // The last claim took all there was: unless somebody is told of more, there is nothing for a moment.
        if std::mem::take(&mut self.took_all) && rest {
            let due = self.promote_at.saturating_duration_since(Instant::now());
            self.rest(Some(due.min(SHORT_REST)));
            if self.shared.stop.is_stopping() {
                return Vec::new();
            }
        }
        match self.try_claim(limit, begun) {
            Ok(Next::Jobs(jobs)) => {
                self.took_all = jobs.len() < limit;
                return jobs;
            }
            Err(_) => self.back_off(),
            Ok(_) if !rest => {}
            Ok(Next::Locked) => self.pause(spread(LOCKED_WAIT)),
            Ok(Next::Due(next)) => self.rest(Some(next)),
            Ok(Next::Empty) => self.rest(None),
        }
        Vec::new()
    }

    fn try_claim(&mut self, limit: usize, begun: bool) -> Result<Next, Failure> {
        let found = self.find_claimed()?;
        if !found.is_empty() {
            return Ok(Next::Jobs(found));
        }
        let shared = self.shared;
        self.promote()?;
        shared.admitter.run(&mut self.control, &shared.schema, limit)?;
        let (jobs, open) = self.claim_in_turn(limit, begun)?;
        if !jobs.is_empty() {
            return Ok(Next::Jobs(jobs));
        }
        let now = Instant::now();
        if let Some(wait) = cursor::unknown_for(&self.cursors, now) {
            return Ok(Next::Due(wait.min(self.promote_at.saturating_duration_since(now))));
        }
        let found = self.control.read(|conn| claim::look(conn, &shared.schema, &open));
        let (took, now) = (now.elapsed(), Instant::now());
        for cursor in &mut self.cursors {
            cursor.looked_further(now, took);
        }
        let (next, waiting) = match found? {
            Found::Claimed(_) => return Ok(Next::Jobs(Vec::new())),
            Found::AllLocked(waiting) => (Next::Locked, waiting),
            Found::NotDue { next, waiting } => (Next::Due(next), waiting),
            Found::Empty(waiting) => (Next::Empty, waiting),
        };
        if let Next::Due(next) = next {
            self.promote_at = self.promote_at.min(Instant::now() + next);
        }
        // A queue whose threads are all at work was not looked at.
        if open.len() == shared.serves.len() {
            shared.look.publish(waiting, shared.admitter.room_in());
        }
        Ok(next)
    }

    /// One claim for each lane, beginning with another one each time, until there are `limit` jobs; and what is served of
    /// the lanes that had room.
    fn claim_in_turn(&mut self, limit: usize, begun: bool) -> Result<(Vec<Claimed>, Vec<Served>), Failure> {
        let lanes = &self.shared.lanes;
        let (mut jobs, mut open) = (Vec::new(), Vec::new());
        self.claims = self.claims.wrapping_add(1);
        for place in 0..lanes.len() {
            let index = (self.claims + place) % lanes.len();
            let lane = &lanes[index];
            let claimed = lane.claim(&self.shared.leases, limit - jobs.len(), |room| {
                (room > 0).then(|| self.claim_from(index, room, begun))
            });
            match claimed {
                Some(Ok(claimed)) => jobs.extend(claimed),
                // What was claimed before is there all the same.
                Some(Err(failure)) if jobs.is_empty() => return Err(failure),
                Some(Err(_)) => break,
                None => continue,
            }
            open.extend_from_slice(&lane.serves);
        }
        Ok((jobs, open))
    }

    /// From where the last claim of the lane ended; from the front when it is time for that, and when there is nothing
    /// else.
    fn claim_from(&mut self, lane: usize, limit: usize, begun: bool) -> Result<Vec<Claimed>, Failure> {
        let cursor = &self.cursors[lane];
        let mut start = match C::LEAVES_DEAD_ENTRIES {
            true => cursor.start(Instant::now(), self.shared.behind.load(Ordering::Acquire)),
            false => cursor.look(),
        };
        if start == Start::Cursor {
            let jobs = self.claim_rows(lane, limit, begun, Start::Cursor)?;
            let cursor = &self.cursors[lane];
            if !jobs.is_empty() || !cursor.may_look(Instant::now()) {
                return Ok(jobs);
            }
            start = cursor.look();
        }
        self.claim_rows(lane, limit, begun, start)
    }

    fn claim_rows(&mut self, lane: usize, limit: usize, begun: bool, start: Start) -> Result<Vec<Claimed>, Failure> {
        let shared = self.shared;
        let serves = &shared.lanes[lane].serves;
        let cursor = &mut self.cursors[lane];
        cursor.begins(start);
        if start == Start::Front {
            shared.behind.store(false, Ordering::Release);
        }
        // From the operating system's random source, for this call: nothing that a database could give out again.
        let lease_token = Uuid::new_v4();
        let request = ClaimRequest {
            serves,
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            lease_token,
            worker: shared.worker.id,
            begun,
            counted: &shared.counted,
            oldest: start == Start::Oldest,
            behind: if start == Start::Cursor { cursor.places() } else { &[] },
        };
        let sent = Instant::now();
        let rows = self.control.run(|conn| claim::take(conn, &shared.schema, &request));
        if matches!(rows, Err(Failure::Away)) {
            self.in_doubt = Some((lease_token, sent, begun));
        }
        let rows = rows?;
        let took = sent.elapsed();
        shared.pace.claimed(took);
        match start {
            Start::Cursor => cursor.found_from_places(rows.len(), took),
            Start::Front | Start::Oldest => cursor.looked(Instant::now(), took),
        }
        if start != Start::Oldest {
            cursor.claimed(serves, &rows);
        }
        Ok(self.take(rows, lease_token, sent, begun))
    }

    /// Makes scheduled jobs claimable that have come due: when the next is known to be, and with each poll.
    fn promote(&mut self) -> Result<(), Failure> {
        if Instant::now() < self.promote_at {
            return Ok(());
        }
        let shared = self.shared;
        let begun = Instant::now();
        let promoted = self
            .control
            .run(|conn| conn.promote(&shared.schema, &shared.serves, PROMOTE_LIMIT))?;
        let dear = self.promote_rest.after(begun.elapsed());
        if promoted > 0 {
            shared.behind.store(true, Ordering::Release);
            // They may have limits.
            shared.admitter.ask();
        }
        let more = i64::try_from(promoted) == Ok(PROMOTE_LIMIT);
        self.promote_at = Instant::now() + if more { Duration::ZERO } else { shared.poll.max(dear) };
        Ok(())
    }

    /// In the order in which they are to begin.
    fn take(&self, mut rows: Vec<ClaimedRow>, lease_token: Uuid, sent: Instant, begun: bool) -> Vec<Claimed> {
        rows.sort_by_key(ClaimedRow::place);
        let take = |row| self.shared.hold(row, lease_token, sent, begun);
        rows.into_iter().map(take).collect()
    }

    /// Looks for the rows of a claim whose answer was lost, by its token. Those whose lease has not run out are as good
    /// as if the answer had come.
    fn find_claimed(&mut self) -> Result<Vec<Claimed>, Failure> {
        let Some((token, sent, begun)) = self.in_doubt else {
            return Ok(Vec::new());
        };
        let shared = self.shared;
        let mut rows = self.control.read(|conn| conn.find_claimed(&shared.schema, token))?;
        self.in_doubt = None;
        rows.retain(|row| sent.elapsed() < Duration::from_millis(row.lease_ms.unsigned_abs()));
        if !rows.is_empty() {
            log::info!("found {} jobs of a claim whose answer was lost", rows.len());
        }
        Ok(self.take(rows, token, sent, begun))
    }

    /// Records that handlers begin on these leases; the ids that are still ours, `None` when the database is away.
    pub(crate) fn begin(&mut self, fences: &[Fence]) -> Option<Vec<i64>> {
        let shared = self.shared;
        let begun = self.control.run(|conn| match shared.counted.as_slice() {
            [] => conn.begin(&shared.schema, fences),
            counted => conn.begin_counted(&shared.schema, fences, counted),
        });
        if begun.is_err() {
            self.back_off();
        } else if !shared.counted.is_empty() {
            shared.admitter.ask();
        }
        begun.ok()
    }

    /// Waits until something may be due: a wake-up, the next run time, or the poll that bounds a missed wake-up.
    fn rest(&mut self, next: Option<Duration>) {
        let poll = spread(self.shared.poll);
        let due = [next, self.shared.admitter.due_in()].into_iter().flatten().min();
        let timeout = due.map_or(poll, |due| due.min(poll));
        match self.control.connection() {
            Some(conn) => {
                let timeout = self.shared.idle.enter(timeout);
                conn.wait_for_change(&mut self.seen, &self.wake, timeout);
                self.shared.idle.leave();
            }
            None => self.pause(timeout),
        }
        // On the way to the next claim there is a look at limits only where there are some.
        self.shared.admitter.ask_if_limited();
    }

    fn back_off(&mut self) {
        let wait = self.control.next_wait();
        self.pause(wait);
    }

    /// Until something is handed over, or the worker stops.
    fn wait_for_wake_up(&self) {
        select! {
            recv(self.wake) -> _ => {}
            recv(self.shared.stop.stopped()) -> _ => {}
        }
    }

    fn pause(&self, timeout: Duration) {
        select! {
            recv(self.shared.stop.stopped()) -> _ => {}
            default(timeout) => {}
        }
    }

    /// The connection, for a thread that settles its own jobs.
    pub(crate) fn control(&mut self) -> &mut Control<C> {
        &mut self.control
    }
}

impl<C: Backend, A> Shared<C, A> {
    /// What was claimed is held from now on, and renewed.
    pub(super) fn hold(&self, row: ClaimedRow, lease_token: Uuid, sent: Instant, begun: bool) -> Claimed {
        // A start that counts: when its period ends is known from now on.
        if let Some(key) = &row.limit_key
            && self.counted.iter().any(|counted| counted.kind == row.kind)
        {
            self.admitter.free(&row.kind, key);
        }
        let timeout = self.registry.timeout(&row.kind);
        let held = Arc::new(Held::new(&row, lease_token, timeout, sent, begun));
        self.leases.add(&held);
        let waited = Duration::from_millis(u64::try_from(row.waited_ms).unwrap_or_default());
        self.reporter.claimed(&held.info(), waited);
        Claimed { row, held }
    }
}
