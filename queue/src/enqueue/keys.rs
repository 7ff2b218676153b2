//! Keys that at most one job may have.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::{EnqueueError, EnqueueOptions, Enqueued};
use crate::backend::{Backend, KeyHolder, NewJob, NewKey};
use crate::settle::millis;

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
    let mut enqueued: Vec<Enqueued> = ids.iter().map(|id| Enqueued::New { id: *id }).collect();
    // Two equal jobs in one call: the first one counts.
    for (index, keys) in keys_of.iter().enumerate() {
        match keys
            .iter()
            .find_map(|key| wanted.iter().find(|other| other.key == key.key))
        {
            Some(first) => enqueued[index] = Enqueued::Existing { id: first.job_id },
            None => wanted.extend(keys.iter().cloned()),
        }
    }
    let mut taken = conn.take_keys(schema, &wanted)?;
    let mut missed: Vec<String> = wanted
        .iter()
        .map(|key| key.key.clone())
        .filter(|key| !taken.contains(key))
        .collect();
    let mut holders = Vec::new();
    // A holder may expire or end between our looks; then the key is free, and is taken at the next.
    while !missed.is_empty() {
        conn.drop_expired_keys(schema, &missed)?;
        holders = conn.key_holders(schema, &missed)?;
        missed.retain(|key| !holders.iter().any(|holder| holder.key == *key));
        let again: Vec<NewKey> = wanted.iter().filter(|key| missed.contains(&key.key)).cloned().collect();
        if again.is_empty() {
            break;
        }
        let now = conn.take_keys(schema, &again)?;
        missed = wanted
            .iter()
            .map(|key| key.key.clone())
            .filter(|key| !taken.contains(key) && !now.contains(key))
            .collect();
        taken.extend(now);
    }
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

/// Who else has the key; an idempotency key that was used for something else is an error.
fn conflict(key: &NewKey, holders: &[KeyHolder]) -> Option<Result<i64, EnqueueError>> {
    let holder = holders
        .iter()
        .find(|holder| holder.key == key.key && holder.job_id != key.job_id)?;
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
        keep_ms: None,
    });
    let idempotency = row.idempotency_key.as_ref().map(|key| {
        let key = stored_idempotency_key(key);
        NewKey {
            key,
            job_id,
            fingerprint: fingerprint.clone(),
            keep_ms,
        }
    });
    unique.into_iter().chain(idempotency).collect()
}

/// A unique key as it is stored. Each kind has its own.
pub(super) fn stored_unique_key(kind: &str, key: &str) -> String {
    format!("unique:{}", sha256(&[kind, key]))
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
