//! I8, I12: the history that triggers kept of each job.

use std::collections::HashMap;

use diesel::result::QueryResult;

use super::Findings;
use crate::settings::Settings;
use crate::site::Ask;

/// A change of a job.
struct Change<'t> {
    job: &'t str,
    application: &'t str,
    was: &'t str,
    old_generation: i64,
    old_token: &'t str,
    state: &'t str,
    generation: i64,
    token: &'t str,
    extended: bool,
}

impl<'t> Change<'t> {
    fn parse(row: &'t str) -> Option<Self> {
        let fields: Vec<&str> = row.split('|').collect();
        let [
            job,
            application,
            was,
            old_generation,
            old_token,
            state,
            generation,
            token,
            extended,
        ] = fields.as_slice()
        else {
            return None;
        };
        Some(Self {
            job,
            application,
            was,
            old_generation: old_generation.parse().ok()?,
            old_token,
            state,
            generation: generation.parse().ok()?,
            token,
            extended: matches!(*extended, "true" | "1"),
        })
    }

    fn is_claim(&self) -> bool {
        self.was == "ready" && self.state == "running"
    }
}

/// The changes in their order: of one job they exclude each other, so a sequence drawn in the change has that order.
const CHANGES: &str = "
    SELECT job_id || '|' || application || '|' || coalesce(was, '') || '|' || coalesce(old_generation, -1) || '|'
        || coalesce(CAST(old_token AS text), '') || '|' || state || '|' || generation || '|'
        || coalesce(CAST(token AS text), '') || '|' || CAST(extended AS text)
    FROM (SELECT * FROM history ORDER BY seq) AS in_order
";

pub(super) fn check(findings: &mut Findings, conn: &mut impl Ask, settings: &Settings) -> QueryResult<()> {
    let rows = conn.texts(CHANGES)?;
    findings.history = rows.len();
    // Of each job its generation so far, and of each claim who made it.
    let mut generations: HashMap<&str, i64> = HashMap::new();
    let mut claimers: HashMap<(&str, &str), &str> = HashMap::new();
    for row in &rows {
        let Some(change) = Change::parse(row) else {
            findings.violated(format!("not a change: {row}"));
            continue;
        };
        let job = change.job;
        let before = generations.insert(job, change.generation).unwrap_or_default();
        // After a crash that takes commits back the history begins again from what is left, too.
        if settings.is_durable() && (change.generation < before || change.generation < change.old_generation) {
            findings.violated(format!(
                "I8: job {job} went from generation {before} to {}",
                change.generation
            ));
        }
        if change.is_claim() {
            if change.generation != change.old_generation + 1 {
                findings.violated(format!(
                    "I8: a claim of job {job} did not raise its generation by one: {row}"
                ));
            }
            claimers.insert((job, change.token), change.application);
        }
        let owner = claimers.get(&(job, change.token)).copied();
        if change.extended && change.state == "running" {
            let same = change.generation == change.old_generation && change.token == change.old_token;
            if !same || owner != Some(change.application) {
                findings.violated(format!("I12: a lease of {owner:?} was extended: {row}"));
            }
        }
        if change.state == "completed" && owner != Some(change.application) {
            findings.violated(format!("I5: a job of {owner:?} was completed: {row}"));
        }
    }
    Ok(())
}
