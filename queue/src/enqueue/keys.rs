//! Keys that at most one job may have.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::{EnqueueError, EnqueueOptions, Enqueued};
use crate::backend::{Backend, KeyHolder, NewJob, NewKey};
use crate::schema::Schema;
use crate::settle::millis;

/// The states in which a job keeps its unique key: ready and running.
const WHILE_OPEN: i16 = 3;
/// Every state: an idempotency key outlives its job.
const ALWAYS: i16 = 31;

/// Takes the keys of freshly inserted jobs, and withdraws those jobs whose keys are another's.
///
/// The jobs are written first, because a key names its job. Nobody sees those withdrawn: all is one transaction. A key
/// that another transaction is about to commit is waited for, so a job is never dropped in favour of one that rolls back.
pub(super) fn take_keys<C: Backend>(
    conn: &mut C,
    options: &EnqueueOptions,
    rows: &[NewJob],
    ids: &[i64],
) -> Result<Vec<Enqueued>, EnqueueError> {
    let schema = &options.schema;
    let keys_of: Vec<Vec<NewKey>> = rows.iter().zip(ids).map(|(row, id)| keys(row, *id, options)).collect();
    let mut wanted: Vec<NewKey> = Vec::new();
    let mut first_with: HashMap<&str, i64> = HashMap::new();
    let mut enqueued: Vec<Enqueued> = ids.iter().map(|id| Enqueued::New { id: *id }).collect();
    // Two equal jobs in one call: the first one counts.
    for (index, keys) in keys_of.iter().enumerate() {
        match keys.iter().find_map(|key| first_with.get(key.key.as_str())) {
            Some(first) => enqueued[index] = Enqueued::Existing { id: *first },
            None => {
                first_with.extend(keys.iter().map(|key| (key.key.as_str(), key.job_id)));
                wanted.extend(keys.iter().cloned());
            }
        }
    }
    let holders = take_or_find(conn, schema, wanted)?;
    let holders: HashMap<&str, &KeyHolder> = holders.iter().map(|holder| (holder.key.as_str(), holder)).collect();
    for (index, keys) in keys_of.iter().enumerate() {
        if let Some(holder) = keys.iter().find_map(|key| conflict(key, &holders)).transpose()? {
            enqueued[index] = Enqueued::Existing { id: holder };
        }
    }
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

/// Takes the keys that are free; the holders of the others. A holder may expire or end between our looks; then its key is
/// free, and is taken at the next.
fn take_or_find<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    mut wanted: Vec<NewKey>,
) -> Result<Vec<KeyHolder>, EnqueueError> {
    let mut holders = Vec::new();
    loop {
        let taken: HashSet<String> = conn.take_keys(schema, &wanted)?.into_iter().collect();
        wanted.retain(|key| !taken.contains(&key.key));
        if wanted.is_empty() {
            return Ok(holders);
        }
        let missed: Vec<String> = wanted.iter().map(|key| key.key.clone()).collect();
        conn.drop_expired_keys(schema, &missed)?;
        let found = conn.key_holders(schema, &missed)?;
        let held: HashSet<&str> = found.iter().map(|holder| holder.key.as_str()).collect();
        wanted.retain(|key| !held.contains(key.key.as_str()));
        holders.extend(found);
        if wanted.is_empty() {
            return Ok(holders);
        }
    }
}

/// Who else has the key; an idempotency key that was used for something else is an error.
fn conflict(key: &NewKey, holders: &HashMap<&str, &KeyHolder>) -> Option<Result<i64, EnqueueError>> {
    let holder = holders
        .get(key.key.as_str())
        .filter(|holder| holder.job_id != key.job_id)?;
    if key.keep_ms.is_some() && holder.fingerprint != key.fingerprint {
        return Some(Err(EnqueueError::KeyConflict { id: holder.job_id }));
    }
    Some(Ok(holder.job_id))
}

fn keys(row: &NewJob, job_id: i64, options: &EnqueueOptions) -> Vec<NewKey> {
    let fingerprint = sha256(&[row.kind, &row.payload]);
    let remember = options.remember_key.unwrap_or(EnqueueOptions::KEY_RETENTION);
    let keep_ms = Some(millis(remember));
    let unique = row.unique_key.clone().map(|key| NewKey {
        key,
        job_id,
        fingerprint: fingerprint.clone(),
        states: WHILE_OPEN,
        keep_ms: None,
    });
    let idempotency = row.idempotency_key.as_ref().map(|key| {
        let key = stored_idempotency_key(key);
        NewKey {
            key,
            job_id,
            fingerprint: fingerprint.clone(),
            states: ALWAYS,
            keep_ms,
        }
    });
    unique.into_iter().chain(idempotency).collect()
}

/// A unique key as it is stored. Each kind has its own.
pub(super) fn stored_unique_key(kind: &str, key: &str) -> String {
    format!("unique:{}", sha256(&[kind, key]))
}

/// What a kind's limits count by, as it is stored; without a key, all jobs of the kind.
pub(super) fn stored_limit_key(kind: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("limit:{}", sha256(&[kind, key])),
        None => format!("limit:{}", sha256(&[kind])),
    }
}

/// The key as it is remembered.
pub(crate) fn stored_idempotency_key(key: &str) -> String {
    format!("idempotency:{}", sha256(&[key]))
}

/// Hashed, because keys can be long and an index entry cannot. The parts are joined by a newline, which no kind has.
fn sha256(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\n").as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
