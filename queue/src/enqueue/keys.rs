//! Keys that at most one job may have.
//!
//! The jobs are written first, because a key names its job. Those that do not get their keys are withdrawn, and nobody
//! sees them: all is one transaction.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use diesel::result::QueryResult;
use sha2::{Digest, Sha256};

use super::holders::{Holder, take_or_find};
use super::{EnqueueError, EnqueueOptions, Enqueued};
use crate::backend::{Backend, NewJob, NewKey, ReadyChange, Replacement};
use crate::job::OnConflict;
use crate::schema::Schema;

/// Every state: an idempotency key outlives its job.
const ALWAYS: i16 = 31;
const IDEMPOTENCY: &str = "idempotency:";

/// A fresh job with the keys that it wants.
struct Fresh<'a> {
    row: &'a NewJob,
    id: i64,
    unique: Option<NewKey>,
    idempotency: Option<NewKey>,
}

/// Takes the keys of freshly inserted jobs, and withdraws those jobs whose keys are another's, after what their conflict
/// asks for.
pub(super) fn take_keys<C: Backend>(
    conn: &mut C,
    options: &EnqueueOptions,
    rows: &[NewJob],
    ids: &[i64],
) -> Result<Vec<Enqueued>, EnqueueError> {
    let schema = &options.schema;
    let jobs: Vec<Fresh<'_>> = rows.iter().zip(ids).map(|(row, id)| fresh(row, *id)).collect();
    // Idempotency keys first: a job that was enqueued before takes no unique key from the others of this call.
    let requests = holders(conn, schema, jobs.iter().filter_map(|job| job.idempotency.as_ref()))?;
    let mut before = Vec::with_capacity(jobs.len());
    for job in &jobs {
        before.push(job.requested_before(&requests)?);
    }
    let others = jobs.iter().zip(&before).filter(|(_, answer)| answer.is_none());
    let unique = holders(conn, schema, others.filter_map(|(job, _)| job.unique.as_ref()))?;

    let mut changes: HashMap<i64, ReadyChange> = HashMap::new();
    let mut enqueued = Vec::with_capacity(jobs.len());
    for (job, before) in jobs.iter().zip(before) {
        enqueued.push(match before {
            Some(answer) => answer,
            None => job.answer(&unique, &mut changes)?,
        });
    }
    apply(conn, schema, changes, &mut enqueued)?;
    let withdrawn: Vec<i64> = ids
        .iter()
        .zip(&enqueued)
        .filter(|(_, answer)| !answer.is_new())
        .map(|(id, _)| *id)
        .collect();
    if !withdrawn.is_empty() {
        conn.withdraw(schema, &withdrawn)?;
    }
    Ok(enqueued)
}

/// Takes the keys that are free; who has each of them then. Of two jobs in one call the first one has it, and the second
/// one meets it there.
fn holders<'k, C: Backend>(
    conn: &mut C,
    schema: &Schema,
    keys: impl Iterator<Item = &'k NewKey>,
) -> Result<HashMap<String, Holder>, EnqueueError> {
    let mut first_with: HashMap<&str, &NewKey> = HashMap::new();
    for key in keys {
        first_with.entry(&key.key).or_insert(key);
    }
    let wanted: Vec<NewKey> = first_with.values().copied().cloned().collect();
    let mut holders = take_or_find(conn, schema, wanted)?;
    for (text, key) in first_with {
        holders.entry(text.to_owned()).or_insert_with(|| Holder::fresh(key));
    }
    Ok(holders)
}

impl Fresh<'_> {
    /// The answer, if its idempotency key is another's.
    fn requested_before(&self, holders: &HashMap<String, Holder>) -> Result<Option<Enqueued>, EnqueueError> {
        let Some((key, holder)) = self
            .idempotency
            .as_ref()
            .and_then(|key| Some((key, self.other(key, holders)?)))
        else {
            return Ok(None);
        };
        let id = holder.job_id;
        match holder.fingerprint == key.fingerprint {
            true => Ok(Some(Enqueued::Existing { id })),
            false => Err(EnqueueError::KeyConflict { id }),
        }
    }

    /// Who else has its key.
    fn other<'h>(&self, key: &NewKey, holders: &'h HashMap<String, Holder>) -> Option<&'h Holder> {
        holders.get(&key.key).filter(|holder| holder.job_id != self.id)
    }

    /// What becomes of it, now that the holders of unique keys are known; a change that it asks for replaces an earlier one
    /// of the same job.
    fn answer(
        &self,
        holders: &HashMap<String, Holder>,
        changes: &mut HashMap<i64, ReadyChange>,
    ) -> Result<Enqueued, EnqueueError> {
        let Some(holder) = self.unique.as_ref().and_then(|key| self.other(key, holders)) else {
            return Ok(Enqueued::New { id: self.id });
        };
        let id = holder.job_id;
        match (self.row.unique.action(), holder.ready) {
            (OnConflict::Reject, _) => Err(EnqueueError::UniqueConflict { id }),
            (OnConflict::Keep, _) | (_, None) => Ok(Enqueued::Existing { id }),
            (_, Some(generation)) => {
                changes.insert(id, self.change(id, generation));
                Ok(Enqueued::Updated { id })
            }
        }
    }

    fn change(&self, id: i64, generation: i64) -> ReadyChange {
        let action = self.row.unique.action();
        ReadyChange {
            id,
            generation,
            replaced: action.replaces().then(|| Replacement {
                payload: self.row.payload.clone(),
                version: self.row.version,
                limit_key: self.row.limit_key.clone(),
            }),
            run_at: action.reschedules().then_some(self.row.run_at),
        }
    }
}

/// Changes the holders. They are locked, so none has begun since it was found ready.
fn apply<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    changes: HashMap<i64, ReadyChange>,
    enqueued: &mut [Enqueued],
) -> QueryResult<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut changes: Vec<ReadyChange> = changes.into_values().collect();
    changes.sort_unstable_by_key(|change| change.id);
    let changed: HashSet<i64> = conn.change_ready(schema, &changes)?.into_iter().collect();
    for answer in enqueued {
        if let Enqueued::Updated { id } = *answer
            && !changed.contains(&id)
        {
            *answer = Enqueued::Existing { id };
        }
    }
    Ok(())
}

fn fresh(row: &NewJob, id: i64) -> Fresh<'_> {
    let fingerprint = fingerprint(&row.kind, &row.payload);
    let key = |key, states, keep_ms| NewKey {
        key,
        job_id: id,
        fingerprint: fingerprint.clone(),
        states,
        keep_ms,
    };
    Fresh {
        row,
        id,
        unique: row
            .unique_key
            .clone()
            .map(|unique| key(unique, row.unique.mask(), row.unique.keep_ms())),
        idempotency: row
            .idempotency_key
            .as_ref()
            .map(|given| key(stored_idempotency_key(given), ALWAYS, Some(row.remember_ms))),
    }
}

/// What a key was used for.
pub(crate) fn fingerprint(kind: &str, payload: &str) -> String {
    sha256(&[kind, payload])
}

/// A unique key as it is stored. Each kind has its own, or each kind in each queue.
pub(crate) fn stored_unique_key(kind: &str, queue: Option<&str>, key: &str) -> String {
    match queue {
        None => format!("unique:{}", sha256(&[kind, key])),
        Some(queue) => format!("unique in queue:{}", sha256(&[kind, queue, key])),
    }
}

/// What a kind's limits count by, as it is stored; without a key, all jobs of the kind.
pub(super) fn stored_limit_key(kind: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("limit:{}", sha256(&[kind, key])),
        None => format!("limit:{}", sha256(&[kind])),
    }
}

/// An idempotency key made of a text of the payload's. It begins with the kind, for keys of all kinds are remembered together.
pub(crate) fn derived_key(kind: &str, text: &str) -> String {
    format!("{kind}:{}", sha256(&[text]))
}

/// The key as it is remembered.
pub(crate) fn stored_idempotency_key(key: &str) -> String {
    format!("{IDEMPOTENCY}{}", sha256(&[key]))
}

/// Whether a stored key is remembered whatever becomes of its job.
pub(super) fn outlives_its_job(key: &str) -> bool {
    key.starts_with(IDEMPOTENCY)
}

/// Hashed, because keys can be long and an index entry cannot. The parts are joined by a newline, which no kind and no
/// queue has.
fn sha256(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\n").as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
