//! The invariants of a run, from the logs of the workers and the tables.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use diesel::result::QueryResult;
use leasehold::__private::Fence;
use uuid::Uuid;

use crate::log::{self, Line};
use crate::settings::Settings;
use crate::site::Ask;

mod history;

/// What a run has shown.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<String>,
    /// Jobs that have ended.
    pub(crate) jobs: usize,
    pub(crate) commits: usize,
    /// Commits that were refused, by reason.
    pub(crate) refusals: HashMap<String, usize>,
    /// Commits that were not told as done, and are.
    pub(crate) landed_unseen: usize,
    /// Commits that were told as done, and were undone by a crash.
    pub(crate) undone: usize,
    /// Jobs whose enqueue was acknowledged, and was undone by a crash.
    pub(crate) forgotten: usize,
    /// How often one generation of a job was told to two claims.
    pub(crate) told_twice: usize,
    pub(crate) history: usize,
}

/// A job that has ended.
#[derive(Debug)]
struct Finished {
    kind: String,
    state: String,
    fence: Fence,
    attempt: u32,
    max_attempts: u32,
}

/// Checks a run that has come to its end.
pub(crate) fn check<C: Ask>(conn: &mut C, logs: &Path, enqueued: &[i64], settings: &Settings) -> QueryResult<Findings> {
    let mut findings = Findings::default();
    let lines = lines(logs);
    let finished = finished(conn)?;
    let effects = effects(conn)?;
    findings.jobs = finished.len();
    findings.ends(conn, &finished, enqueued, settings)?;
    findings.effects(&finished, &effects);
    findings.told(&lines, &finished, &effects, settings);
    findings.attempts(&lines, &finished, settings);
    history::check(&mut findings, conn, settings)?;
    Ok(findings)
}

fn lines(logs: &Path) -> Vec<Line> {
    let files = std::fs::read_dir(logs).expect("the logs can be listed");
    files
        .flat_map(|file| {
            let path = file.expect("a log").path();
            log::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

fn fence(id: &str, generation: &str, token: &str) -> Fence {
    Fence {
        id: id.parse().expect("an id"),
        generation: generation.parse().expect("a generation"),
        lease_token: Uuid::try_parse(token).unwrap_or_default(),
    }
}

fn finished(conn: &mut impl Ask) -> QueryResult<HashMap<i64, Finished>> {
    let rows = conn.texts(
        "SELECT id || '|' || kind || '|' || state || '|' || generation || '|' || coalesce(CAST(lease_token AS text), '') \
         || '|' || attempt || '|' || max_attempts FROM leasehold.finished_jobs",
    )?;
    Ok(rows
        .iter()
        .map(|row| {
            let fields: Vec<&str> = row.split('|').collect();
            let fence = fence(fields[0], fields[3], fields[4]);
            let finished = Finished {
                kind: fields[1].to_owned(),
                state: fields[2].to_owned(),
                fence,
                attempt: fields[5].parse().expect("a number"),
                max_attempts: fields[6].parse().expect("a number"),
            };
            (fence.id, finished)
        })
        .collect())
}

fn effects(conn: &mut impl Ask) -> QueryResult<HashMap<i64, Vec<Fence>>> {
    let rows = conn.texts("SELECT job_id || '|' || generation || '|' || token FROM effects")?;
    let mut effects: HashMap<i64, Vec<Fence>> = HashMap::new();
    for row in rows {
        let fields: Vec<&str> = row.split('|').collect();
        let fence = fence(fields[0], fields[1], fields[2]);
        effects.entry(fence.id).or_default().push(fence);
    }
    Ok(effects)
}

impl Findings {
    fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    /// I1, I2: each acknowledged job has ended, in one state.
    fn ends(
        &mut self,
        conn: &mut impl Ask,
        finished: &HashMap<i64, Finished>,
        enqueued: &[i64],
        settings: &Settings,
    ) -> QueryResult<()> {
        for job in conn.texts("SELECT id || ', ' || state || ', generation ' || generation FROM leasehold.jobs")? {
            self.violated(format!("I2: job {job} has not ended"));
        }
        for id in enqueued.iter().filter(|id| !finished.contains_key(id)) {
            self.forgotten += 1;
            if settings.is_durable() {
                self.violated(format!("I1: job {id} was acknowledged, and is gone"));
            }
        }
        for job in finished.values() {
            let right: &[&str] = match job.kind.as_str() {
                "poison" => &["discarded"],
                "idle" => &["completed"],
                _ => &["completed", "cancelled"],
            };
            if !right.contains(&job.state.as_str()) {
                self.violated(format!(
                    "I2: job {} of the kind {} is {}",
                    job.fence.id, job.kind, job.state
                ));
            }
        }
        Ok(())
    }

    /// I3, I4: one business row for each completed job and none for others, written under the fence that completed it.
    fn effects(&mut self, finished: &HashMap<i64, Finished>, effects: &HashMap<i64, Vec<Fence>>) {
        for job in finished.values() {
            let id = job.fence.id;
            let rows = effects.get(&id).map_or(0, Vec::len);
            let right = usize::from(job.state == "completed" && job.kind == "hit");
            if rows != right {
                self.violated(format!("I3: job {id} is {} and has {rows} business rows", job.state));
            }
        }
        for fence in effects.values().flatten() {
            match finished.get(&fence.id) {
                Some(job) if job.fence == *fence => {}
                Some(job) => self.violated(format!("I4: {fence:?} wrote the business row of {:?}", job.fence)),
                None => self.violated(format!("I4: {fence:?} wrote a business row of no job")),
            }
        }
    }

    /// I5, I6, I7, I11: what the workers were told is so.
    fn told(
        &mut self,
        lines: &[Line],
        finished: &HashMap<i64, Finished>,
        effects: &HashMap<i64, Vec<Fence>>,
        settings: &Settings,
    ) {
        let landed = |fence: &Fence| effects.get(&fence.id).is_some_and(|rows| rows.contains(fence));
        let mut claims = HashSet::new();
        let mut generations: HashMap<(i64, i64), usize> = HashMap::new();
        for line in lines {
            match line {
                Line::Claimed(fence, ..) => {
                    if !claims.insert(*fence) {
                        self.violated(format!("I7: {fence:?} was told twice"));
                    }
                    *generations.entry((fence.id, fence.generation)).or_default() += 1;
                }
                Line::Committed(fence) => {
                    self.commits += 1;
                    let completed = finished.get(&fence.id).is_some_and(|job| job.fence == *fence);
                    if !completed || !landed(fence) {
                        self.undone += 1;
                        if settings.is_durable() {
                            self.violated(format!("I6: {fence:?} was told as committed, and is not"));
                        }
                    }
                }
                Line::Refused(fence, reason, generation) => {
                    *self.refusals.entry(reason.clone()).or_default() += 1;
                    if landed(fence) {
                        self.violated(format!("I5: {fence:?} was told as {reason}, and is committed"));
                    }
                    if reason == "lost" && generation.is_none_or(|generation| generation <= fence.generation) {
                        self.violated(format!("I5: {fence:?} was told as lost to generation {generation:?}"));
                    }
                    // Nothing is purged, and no kind has a timeout; what a crash takes back is gone only if it was not durable.
                    let never = matches!(reason.as_str(), "timed-out" | "other");
                    let lost_by_crash = matches!(reason.as_str(), "durability-loss" | "missing");
                    if never || lost_by_crash && settings.is_durable() {
                        self.violated(format!("I5: {fence:?} was told as {reason}, which cannot be"));
                    }
                }
                Line::Failed(fence) => self.landed_unseen += usize::from(landed(fence)),
                Line::Depth(fence, depth) => {
                    self.violated(format!("I11: {fence:?} got a connection at depth {depth}"));
                }
            }
        }
        for ((id, generation), times) in generations.into_iter().filter(|(_, times)| *times > 1) {
            self.told_twice += times - 1;
            if !settings.lazy_claims {
                self.violated(format!(
                    "I8: generation {generation} of job {id} was told {times} times"
                ));
            }
        }
    }

    /// I9: no job is begun more often than it may, also one that kills its process. A claim that a crash takes back was begun
    /// all the same, and counts for nothing.
    fn attempts(&mut self, lines: &[Line], finished: &HashMap<i64, Finished>, settings: &Settings) {
        let mut begun: HashMap<i64, u32> = HashMap::new();
        for line in lines {
            if let Line::Claimed(fence, attempt, most) = line {
                *begun.entry(fence.id).or_default() += 1;
                if attempt > most {
                    self.violated(format!("I9: {fence:?} is attempt {attempt} of {most}"));
                }
            }
        }
        for job in finished.values() {
            let begun = begun.get(&job.fence.id).copied().unwrap_or_default();
            if job.attempt > job.max_attempts
                || job.kind == "poison" && begun > job.max_attempts && !settings.lazy_claims
            {
                self.violated(format!(
                    "I9: job {} was begun {begun} times, at attempt {} of {}",
                    job.fence.id, job.attempt, job.max_attempts
                ));
            }
        }
    }
}
