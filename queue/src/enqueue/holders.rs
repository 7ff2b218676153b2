//! Who has a key, and whether that job still keeps it.
//!
//! A key that another transaction is about to commit is waited for, so a job is never dropped in favour of one that rolls
//! back. A key whose holder has left the key's states is taken over: the statements that end a job free what they can,
//! but what a job leaves in passing (it is claimed, say) is looked at here alone.

use std::collections::{HashMap, HashSet};

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::QueryResult;

use super::EnqueueError;
use super::keys::outlives_its_job;
use crate::backend::{Backend, KeyHolder, LockedReady, NewKey};
use crate::inspect::State;
use crate::schema::Schema;

/// How often holders are looked at. Each further look means that another process took, freed or moved one of the keys
/// between two statements of ours.
const MAX_LOOKS: u32 = 100;

/// The job that has a key.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub(super) job_id: i64,
    /// What the key was first used for.
    pub(super) fingerprint: String,
    /// Its generation, if it is ready. It stays so until the transaction ends.
    pub(super) ready: Option<i64>,
}

impl Holder {
    /// A job that this transaction has written.
    pub(super) fn fresh(key: &NewKey) -> Self {
        Self {
            job_id: key.job_id,
            fingerprint: key.fingerprint.clone(),
            ready: Some(0),
        }
    }
}

/// How a job stands to a key that it has.
enum Standing {
    /// It keeps the key; with its generation if it is ready.
    Keeps(Option<i64>),
    /// It is in none of the key's states, or gone.
    Left,
    /// It became ready between two looks.
    Moves,
}

/// What one look at all keys came to.
enum Look {
    /// Each is taken or held.
    Done(HashMap<String, Holder>),
    /// Another process took, freed or moved one of them meanwhile.
    Moved,
}

/// Takes the keys that are free; the holders of the others.
///
/// All enqueues take keys in one order, so that they cannot wait for each other in a circle. A further look would take a
/// lower key while it has higher ones: it begins with none, for the look before is undone.
pub(super) fn take_or_find<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    wanted: Vec<NewKey>,
) -> Result<HashMap<String, Holder>, EnqueueError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    for _ in 0..MAX_LOOKS {
        let look = match &wanted[..] {
            // Nothing is had while another is waited for.
            [_] => look(conn, schema, &wanted)?,
            _ => undone_unless_done(conn, |conn| look(conn, schema, &wanted))?,
        };
        if let Look::Done(held) = look {
            return Ok(held);
        }
    }
    Err(EnqueueError::KeysContended)
}

/// Runs a look in a savepoint of the transaction that is open. What it took is free again unless it is done.
fn undone_unless_done<C: Backend>(conn: &mut C, look: impl FnOnce(&mut C) -> QueryResult<Look>) -> QueryResult<Look> {
    AnsiTransactionManager::begin_transaction(conn)?;
    let looked = look(conn);
    match looked {
        Ok(Look::Done(_)) => AnsiTransactionManager::commit_transaction(conn)?,
        _ => AnsiTransactionManager::rollback_transaction(conn)?,
    }
    looked
}

/// One look: first all keys that nobody has are taken, in their order, and only then those taken over that are there, in
/// their order. Who has one of those waits for none of the others.
fn look<C: Backend>(conn: &mut C, schema: &Schema, wanted: &[NewKey]) -> QueryResult<Look> {
    let taken: HashSet<String> = conn.take_keys(schema, wanted)?.into_iter().collect();
    let missed: Vec<String> = wanted
        .iter()
        .filter(|key| !taken.contains(&key.key))
        .map(|key| key.key.clone())
        .collect();
    if missed.is_empty() {
        return Ok(Look::Done(HashMap::new()));
    }
    let mut held = HashMap::new();
    let found = conn.key_holders(schema, &missed)?;
    let left = judge(conn, schema, found, &mut held)?;
    let over: Vec<(NewKey, i64)> = wanted
        .iter()
        .filter_map(|key| Some((key.clone(), *left.get(&key.key)?)))
        .collect();
    let taken_over: HashSet<String> = match over.is_empty() {
        true => HashSet::new(),
        false => conn.take_over_keys(schema, &over)?.into_iter().collect(),
    };
    let settled = |key: &String| taken_over.contains(key) || held.contains_key(key);
    Ok(match missed.iter().all(settled) {
        true => Look::Done(held),
        false => Look::Moved,
    })
}

/// Adds those to `held` whose job keeps the key; the others' keys, each with the job that has left it.
fn judge<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    found: Vec<KeyHolder>,
    held: &mut HashMap<String, Holder>,
) -> QueryResult<HashMap<String, i64>> {
    let ids: HashSet<i64> = found
        .iter()
        .filter(|holder| !outlives_its_job(&holder.key))
        .map(|holder| holder.job_id)
        .collect();
    let jobs = look_at(conn, schema, ids)?;
    let mut left = HashMap::new();
    for holder in found {
        let standing = match outlives_its_job(&holder.key) {
            _ if holder.expired => Standing::Left,
            true => Standing::Keeps(None),
            false => jobs.standing(&holder),
        };
        match standing {
            Standing::Keeps(ready) => {
                let KeyHolder {
                    key,
                    job_id,
                    fingerprint,
                    ..
                } = holder;
                held.insert(
                    key,
                    Holder {
                        job_id,
                        fingerprint,
                        ready,
                    },
                );
            }
            Standing::Left => {
                left.insert(holder.key, holder.job_id);
            }
            Standing::Moves => {}
        }
    }
    Ok(left)
}

/// Jobs as they were found: the ready ones locked, the states of the others read after that.
struct Looked {
    ready: HashMap<i64, LockedReady>,
    others: HashMap<i64, State>,
}

fn look_at<C: Backend>(conn: &mut C, schema: &Schema, ids: HashSet<i64>) -> QueryResult<Looked> {
    let mut ids: Vec<i64> = ids.into_iter().collect();
    ids.sort_unstable();
    let ready = match ids.is_empty() {
        true => Vec::new(),
        false => conn.lock_ready(schema, &ids)?,
    };
    let ready: HashMap<i64, LockedReady> = ready.into_iter().map(|job| (job.id, job)).collect();
    ids.retain(|id| !ready.contains_key(id));
    // A statement of its own: it sees what those were doing that the lock waited for.
    let others = match ids.is_empty() {
        true => Vec::new(),
        false => conn.job_states(schema, &ids)?,
    };
    let others = others.into_iter().map(|job| (job.id, State::parse(&job.state)));
    Ok(Looked {
        ready,
        others: others.collect(),
    })
}

impl Looked {
    fn standing(&self, holder: &KeyHolder) -> Standing {
        let keeps_in = |state: State| holder.states & i16::from(state.bit()) != 0;
        if let Some(job) = self.ready.get(&holder.job_id) {
            return match keeps_in(State::Ready) {
                // As good as discarded: a new job is not dropped in favour of one that will not run.
                _ if job.expired => match keeps_in(State::Discarded) {
                    true => Standing::Keeps(None),
                    false => Standing::Left,
                },
                true => Standing::Keeps(Some(job.generation)),
                false => Standing::Left,
            };
        }
        match self.others.get(&holder.job_id) {
            Some(State::Ready) => Standing::Moves,
            Some(state) if keeps_in(*state) => Standing::Keeps(None),
            Some(_) | None => Standing::Left,
        }
    }
}
