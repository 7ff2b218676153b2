//! The claim of what a caller chose.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::selection::Distinct;
use super::{Answer, ClaimError, ClaimedJob, Selected, Selection};
use crate::admit::{KEYS, admit, alone};
use crate::backend::{Backend, Chosen, ClaimedRow, Keys, KindLimit, SelectedAs, SelectedRequest, SelectedRow};
use crate::claim;
use crate::schema::Schema;
use crate::worker::control::{Control, Failure};
use crate::worker::{Running, Shared};

/// How often the rows of a claim whose answer was lost are looked for while the caller waits.
const LOOKS: u32 = 3;
/// Rows that one statement makes claimable.
const PROMOTE_LIMIT: i64 = 1000;
/// How often it is tried to let jobs in while somebody else does, each time after this wait.
const ADMISSIONS: u32 = 3;
const ADMISSION_WAIT: Duration = Duration::from_millis(2);

/// An answer, and the claim that it is of.
struct Found {
    row: SelectedRow,
    lease_token: Uuid,
    sent: Instant,
}

impl Found {
    /// Whether a limit keeps the job.
    fn is_kept(&self) -> bool {
        matches!(self.row.found, SelectedAs::ByLimit { .. })
    }
}

impl<C: Backend, A: Send + Sync + 'static> Running<C, A> {
    /// Claims those of the chosen jobs that can run now, and says of each of the others what it is.
    ///
    /// There is one answer for each distinct thing that was asked for, where it was named first; an empty selection has no
    /// answers. A job that is claimed this way ignores priority, order and queue. Pauses, limits, dependencies and run times
    /// hold for it as for any other, and its attempt counts from the claim on.
    ///
    /// It never waits for somebody else's lock on a job: such a job is [`Answer::Busy`] at once. So lists that overlap can
    /// be claimed at the same time in any order, each job goes to one of the callers, and no two of them wait for each
    /// other. The claim is committed when this returns.
    ///
    /// # Errors
    ///
    /// [`ClaimError`]; this caller has claimed nothing then.
    ///
    /// ```
    /// # include!("../../doctest_setup.rs");
    /// use leasehold::selected::Answer;
    /// use leasehold::Worker;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, mut conn) = doctest_database();
    /// # let worker = Worker::<SqliteConnection, _>::new(&url, ()).register::<Greet>();
    /// # let running = worker.claims_selected_only().start()?;
    /// let id = Greet { name: "you".to_owned() }.enqueue(&mut conn)?.id();
    /// let answers = running.claim_selected([id, 4711, id])?;
    /// assert_eq!(answers.len(), 2);
    /// assert!(matches!(answers[0].answer, Answer::Claimed(_)));
    /// assert!(matches!(answers[1].answer, Answer::Missing));
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim_selected(&self, selection: impl Into<Selection>) -> Result<Vec<Selected<C>>, ClaimError> {
        let chosen = selection.into().distinct()?;
        if chosen.asked.is_empty() {
            return Ok(Vec::new());
        }
        // Before the look at the stop: it either sees the stop, or is seen by it.
        let _under_way = self.shared.choosing.under_way();
        if self.shared.stop.is_stopping() {
            return Err(ClaimError::Stopping);
        }
        if self.shared.choosing.is_in_commit() {
            return Err(ClaimError::InCommit);
        }
        let found = choose(&self.shared, &chosen)?;
        let take = |(asked, found): (_, Found)| Selected {
            asked,
            id: found.row.id,
            answer: answer(&self.shared, found),
        };
        Ok(chosen.asked.into_iter().zip(found).map(take).collect())
    }

    /// As [`Running::claim_selected`], for one job.
    ///
    /// # Errors
    ///
    /// [`ClaimError`].
    pub fn claim_now(&self, id: i64) -> Result<Answer<C>, ClaimError> {
        let mut answers = self.claim_selected([id])?;
        Ok(answers.pop().map_or(Answer::Missing, |selected| selected.answer))
    }
}

fn answer<C: Backend, A: Send + Sync + 'static>(shared: &Arc<Shared<C, A>>, found: Found) -> Answer<C> {
    match found.row.found {
        SelectedAs::Claimed(row) => {
            let job = shared.hold(*row, found.lease_token, found.sent, true);
            shared.choosing.keep(&job.held);
            Answer::Claimed(ClaimedJob::new(Arc::clone(shared), job))
        }
        other => Answer::of_unclaimed(other).unwrap_or(Answer::Busy),
    }
}

/// Claims, and once more what a limit kept, after it was seen whether there is room.
fn choose<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    chosen: &Distinct,
) -> Result<Vec<Found>, ClaimError> {
    let mut control = shared.choosing.control.lock();
    let asked = match chosen.keys.as_slice() {
        [] => Chosen::Ids(&chosen.ids),
        keys => Chosen::Keys(keys),
    };
    let mut found = claim(shared, &mut control, asked)?;
    let places: Vec<usize> = (0..found.len()).filter(|place| found[*place].is_kept()).collect();
    if places.is_empty() {
        return Ok(found);
    }
    let mut seen = admit_kept(shared, &mut control, &found);
    if seen == Seen::Full {
        return Ok(found);
    }
    let ids: Vec<i64> = places.iter().filter_map(|place| found[*place].row.id).collect();
    // What was claimed before stays claimed, whatever becomes of the second claim.
    match claim(shared, &mut control, Chosen::Ids(&ids)) {
        Ok(again) => places
            .iter()
            .zip(again)
            .for_each(|(place, again)| found[*place] = again),
        Err(_) => seen = Seen::Unclear,
    }
    if seen == Seen::Unclear {
        for kept in found.iter_mut().filter(|found| found.is_kept()) {
            kept.row.found = SelectedAs::Busy;
        }
    }
    Ok(found)
}

/// What was seen of the limits that keep chosen jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// None has room.
    Full,
    /// They were let in as far as there was room.
    Admitted,
    /// Somebody else was letting jobs in, or had their rows locked: a chosen one may have a place a moment later.
    Unclear,
}

/// Admits what there is room for under the limits that keep chosen jobs.
fn admit_kept<C: Backend, A>(shared: &Shared<C, A>, control: &mut Control<C>, found: &[Found]) -> Seen {
    let mut kept: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for found in found {
        if let SelectedAs::ByLimit { kind, limit_key } = &found.row.found {
            kept.entry(kind).or_default().push(limit_key.clone());
        }
    }
    // Those that have come due wait for their limit only from then on.
    let promoted = control.run(|conn| conn.promote(&shared.schema, &shared.serves, PROMOTE_LIMIT));
    let mut seen = match promoted {
        Ok(0) => Seen::Full,
        // The chosen one may be behind these.
        Ok(rows) if i64::try_from(rows).is_ok_and(|rows| rows >= PROMOTE_LIMIT) => Seen::Unclear,
        Ok(_) => Seen::Admitted,
        Err(_) => Seen::Unclear,
    };
    let limits = shared.registry.limits();
    for (limit, mut keys) in limits
        .iter()
        .filter_map(|limit| Some((limit, kept.remove(limit.kind.as_str())?)))
    {
        keys.sort_unstable();
        keys.dedup();
        for keys in keys.chunks(KEYS) {
            seen = seen.max(admit_under(&shared.schema, control, limit, keys));
        }
    }
    seen
}

fn admit_under<C: Backend>(schema: &Schema, control: &mut Control<C>, limit: &KindLimit, keys: &[String]) -> Seen {
    for _ in 0..ADMISSIONS {
        let admission = control.run(|conn| {
            alone(conn, schema, |conn| {
                let admission = admit(conn, schema, limit, Keys::These(keys))?;
                if admission.admitted > 0 {
                    conn.tell_admitted(schema)?;
                }
                Ok(admission)
            })
        });
        match admission {
            Ok(Some(admission)) if admission.more => return Seen::Unclear,
            Ok(Some(admission)) if admission.admitted > 0 => return Seen::Admitted,
            Ok(Some(_)) => return Seen::Full,
            Ok(None) => std::thread::sleep(ADMISSION_WAIT),
            Err(_) => return Seen::Unclear,
        }
    }
    Seen::Unclear
}

fn claim<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    control: &mut Control<C>,
    asked: Chosen<'_>,
) -> Result<Vec<Found>, ClaimError> {
    let doubt = match claim_once(shared, control, asked) {
        Ok(found) => return Ok(found),
        Err((Failure::Refused(error), ..)) => return Err(ClaimError::Database(error)),
        Err((Failure::Away, lease_token, sent)) => (lease_token, sent),
    };
    let (lease_token, sent) = doubt;
    let Some(rows) = find_claimed(shared, control, lease_token, sent) else {
        shared.choosing.doubt(lease_token, sent);
        return Err(ClaimError::Away);
    };
    match claim_once(shared, control, asked) {
        Ok(found) => Ok(with_those_before(found, rows, lease_token, sent)),
        Err((failure, again, sent_again)) => {
            // The caller hears of neither claim, so nobody would run what they took.
            shared.choosing.doubt(lease_token, sent);
            shared.choosing.doubt(again, sent_again);
            Err(match failure {
                Failure::Away => ClaimError::Away,
                Failure::Refused(error) => ClaimError::Database(error),
            })
        }
    }
}

fn claim_once<C: Backend, A: Send + Sync + 'static>(
    shared: &Shared<C, A>,
    control: &mut Control<C>,
    chosen: Chosen<'_>,
) -> Result<Vec<Found>, (Failure, Uuid, Instant)> {
    // From the operating system's random source, for this call: nothing that a database could give out again.
    let (lease_token, sent) = (Uuid::new_v4(), Instant::now());
    let runs = shared.registry.runs();
    let request = SelectedRequest {
        chosen,
        runs: &runs,
        lease_token,
        worker: shared.worker.id,
        counted: &shared.counted,
    };
    let found = |row| Found { row, lease_token, sent };
    match control.run(|conn| claim::claim_selected(conn, &shared.schema, &request)) {
        Ok(rows) => Ok(rows.into_iter().map(found).collect()),
        Err(failure) => Err((failure, lease_token, sent)),
    }
}

/// The rows of a claim whose answer was lost; `None` while the database stays away.
fn find_claimed<C: Backend, A>(
    shared: &Shared<C, A>,
    control: &mut Control<C>,
    lease_token: Uuid,
    sent: Instant,
) -> Option<Vec<ClaimedRow>> {
    for _ in 0..LOOKS {
        std::thread::sleep(control.next_wait());
        if let Ok(mut rows) = control.read(|conn| conn.find_claimed(&shared.schema, lease_token)) {
            rows.retain(|row| sent.elapsed() < Duration::from_millis(row.lease_ms.unsigned_abs()));
            return Some(rows);
        }
    }
    None
}

/// The second claim found the jobs of the first one running: they are the caller's.
fn with_those_before(mut found: Vec<Found>, rows: Vec<ClaimedRow>, lease_token: Uuid, sent: Instant) -> Vec<Found> {
    let mut rows: HashMap<i64, ClaimedRow> = rows.into_iter().map(|row| (row.id, row)).collect();
    if !rows.is_empty() {
        log::info!("found {} chosen jobs of a claim whose answer was lost", rows.len());
    }
    for found in &mut found {
        let is_before = |row: &ClaimedRow| matches!(&found.row.found, SelectedAs::Running { generation, .. } if *generation == row.generation);
        let before = found.row.id.filter(|id| rows.get(id).is_some_and(is_before));
        if let Some(row) = before.and_then(|id| rows.remove(&id)) {
            found.row.found = SelectedAs::Claimed(Box::new(row));
            (found.lease_token, found.sent) = (lease_token, sent);
        }
    }
    found
}
