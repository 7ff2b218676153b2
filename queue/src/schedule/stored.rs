//! What a schedule says, as a row says it.

use serde::{Deserialize, Serialize};

use super::times::Times;
use super::{Missed, Schedule, ScheduleError, check_name};
use crate::backend::{NewJob, RunAt, ScheduleDefinition};
use crate::enqueue::EnqueueOptions;
use crate::job::Unique;
use crate::settle::millis;

/// What an enqueue is told beside the columns. A field that this program does not know is an error: without it another
/// job would be enqueued than was meant.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(skip_serializing_if = "is_usual")]
    unique: Unique,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_key: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    limit_rank: i16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(rank: &i16) -> bool {
    *rank == 0
}

fn is_usual(unique: &Unique) -> bool {
    *unique == Unique::new()
}

/// The checked definition of a schedule, and its times.
pub(super) fn define(schedule: &Schedule) -> Result<(ScheduleDefinition, Times), ScheduleError> {
    let name = schedule.name.clone();
    check_name(&name)?;
    let times = Times::new(&schedule.cron, &schedule.zone)?;
    schedule.missed.check()?;
    if schedule.moves_time {
        return Err(ScheduleError::Options { name });
    }
    let job = match &schedule.job {
        Some(Ok(job)) => job.clone(),
        Some(Err(source)) => {
            let source = std::sync::Arc::clone(source);
            return Err(ScheduleError::Enqueue { name, source });
        }
        None => return Err(ScheduleError::NoJob { name }),
    };
    // By name, so that a new column of a job has to be thought of here. Batches and jobs that are waited for are no
    // schedule's.
    let NewJob {
        queue,
        kind,
        version,
        payload,
        priority,
        run_at: _,
        max_attempts,
        lease_ms,
        idempotency_key: _,
        remember_ms: _,
        unique_key,
        unique,
        expires_ms,
        limit_key,
        limit_rank,
        batch_id: _,
        waits: _,
        awaited: _,
    } = job;
    let more = More {
        unique_key,
        unique,
        expires_ms,
        limit_key,
        limit_rank,
    };
    let options = serde_json::to_string(&more).map_err(|error| unreadable(&name, &error))?;
    let definition = ScheduleDefinition {
        name,
        cron: schedule.cron.trim().to_owned(),
        zone: schedule.zone.clone(),
        missed: schedule.missed.to_string(),
        kind: kind.into_owned(),
        version,
        payload,
        queue,
        priority: priority.into(),
        max_attempts,
        lease_ms,
        options,
    };
    Ok((definition, times))
}

/// What a stored schedule means; an error if a newer program wrote what this one does not know.
pub(super) fn read(definition: &ScheduleDefinition) -> Result<(Times, Missed), ScheduleError> {
    Ok((
        Times::new(&definition.cron, &definition.zone)?,
        definition.missed.parse()?,
    ))
}

/// The job of one fire time.
pub(super) fn job(definition: &ScheduleDefinition, fire_at_ms: i64, key: String) -> Result<NewJob, ScheduleError> {
    let More {
        unique_key,
        unique,
        expires_ms,
        limit_key,
        limit_rank,
    } = serde_json::from_str(&definition.options).map_err(|error| unreadable(&definition.name, &error))?;
    Ok(NewJob {
        queue: definition.queue.clone(),
        kind: definition.kind.clone().into(),
        version: definition.version,
        payload: definition.payload.clone(),
        priority: i16::try_from(definition.priority).unwrap_or_default(),
        run_at: RunAt::At(fire_at_ms),
        max_attempts: definition.max_attempts,
        lease_ms: definition.lease_ms,
        idempotency_key: Some(key),
        remember_ms: millis(EnqueueOptions::KEY_RETENTION),
        unique_key,
        unique,
        expires_ms,
        limit_key,
        limit_rank,
        batch_id: None,
        waits: false,
        awaited: false,
    })
}

fn unreadable(name: &str, error: &serde_json::Error) -> ScheduleError {
    ScheduleError::Unreadable {
        name: name.to_owned(),
        why: error.to_string(),
    }
}
