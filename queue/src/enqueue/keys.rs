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
use crate::settle::millis;

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
    let jobs: Vec<Fresh<'_>> = rows.iter().zip(ids).map(|(row, id)| fresh(row, *id, options)).collect();
    // Two equal jobs in one call: the first one gets the key, and the second one meets it there.
    let mut first_with: HashMap<&str, i64> = HashMap::new();
    let mut wanted: Vec<NewKey> = Vec::new();
    for key in jobs.iter().flat_map(|job| job.unique.iter().chain(&job.idempotency)) {
        if let std::collections::hash_map::Entry::Vacant(entry) = first_with.entry(&key.key) {
            entry.insert(key.job_id);
            wanted.push(key.clone());
        }
    }
    let mut holders = take_or_find(conn, schema, wanted)?;
    for (key, job_id) in first_with {
        holders.entry(key.to_owned()).or_insert_with(|| Holder::fresh(job_id));
    }

    let mut changes: HashMap<i64, ReadyChange> = HashMap::new();
    let mut enqueued = Vec::with_capacity(jobs.len());
    for job in &jobs {
        enqueued.push(job.answer(&holders, &mut changes)?);
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

impl Fresh<'_> {
    /// What becomes of it, now that the holders of all keys are known; a change that it asks for replaces an earlier one of
    /// the same job.
    fn answer(
        &self,
        holders: &HashMap<String, Holder>,
        changes: &mut HashMap<i64, ReadyChange>,
    ) -> Result<Enqueued, EnqueueError> {
        let other = |key: &NewKey| holders.get(&key.key).filter(|holder| holder.job_id != self.id);
        if let Some((key, holder)) = self.idempotency.as_ref().and_then(|key| Some((key, other(key)?))) {
            let id = holder.job_id;
            return match holder.fingerprint.as_ref() == Some(&key.fingerprint) {
                true => Ok(Enqueued::Existing { id }),
                false => Err(EnqueueError::KeyConflict { id }),
            };
        }
        let Some(holder) = self.unique.as_ref().and_then(other) else {
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

fn fresh<'a>(row: &'a NewJob, id: i64, options: &EnqueueOptions) -> Fresh<'a> {
    let fingerprint = fingerprint(&row.kind, &row.payload);
    let key = |key, states, keep_ms| NewKey {
        key,
        job_id: id,
        fingerprint: fingerprint.clone(),
        states,
        keep_ms,
    };
    let remember = options.remember_key.unwrap_or(EnqueueOptions::KEY_RETENTION);
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
            .map(|given| key(stored_idempotency_key(given), ALWAYS, Some(millis(remember)))),
    }
}

/// What a key was used for.
pub(crate) fn fingerprint(kind: &str, payload: &str) -> String {
    sha256(&[kind, payload])
}

/// A unique key as it is stored. Each kind has its own, or each kind in each queue.
pub(super) fn stored_unique_key(kind: &str, queue: Option<&str>, key: &str) -> String {
    match queue {
        None => format!("unique:{}", sha256(&[kind, key])),
        Some(queue) => format!("unique in queue:{}", sha256(&[kind, queue, key])),
    }
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
