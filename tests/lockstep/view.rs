//! The same lines about every job, from the model and from a database.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold::inspect::State;
use leasehold_tests::TestDb;

use crate::model::{Age, Job, Key, Model};

/// The run time of the model's step 0, in seconds since 1970. Whatever lies a year after it is the machine's own time.
const BASE: i64 = 1_500_000_000;
const YEAR: i64 = 31_536_000;

/// The seconds of the time in a column.
fn seconds<D: TestDb>(column: &str) -> String {
    match D::BACKEND {
        "sqlite" => format!("({column} / 1000)"),
        _ => format!("CAST(floor(extract(epoch FROM {column})) AS bigint)"),
    }
}

/// The time of a step, as the tables have it.
pub(crate) fn at<D: TestDb>(step: i64) -> String {
    match D::BACKEND {
        "sqlite" => format!("{}000", BASE + step),
        _ => format!("to_timestamp({})", BASE + step),
    }
}

fn soon() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap() + 600
}

/// Gives the step's time to what was made due in it.
pub(crate) fn settle_times<D: TestDb>(db: &mut D, step: i64) {
    let (run_at, time, soon) = (seconds::<D>("run_at"), at::<D>(step), soon());
    db.sql(&format!(
        "UPDATE leasehold.jobs SET run_at = {time} WHERE {run_at} > {} AND {run_at} < {soon}",
        BASE + YEAR
    ));
}

/// Id, state, generation, attempt, token and the rest, with bars between them.
pub(crate) fn rows<D: TestDb>(db: &mut D) -> Vec<String> {
    let [run_at, expires, until] = ["run_at", "expires_at", "lease_until"].map(seconds::<D>);
    let (late, soon) = (BASE + YEAR, soon());
    let both = |table: &str, rest: &str| {
        format!(
            "SELECT id || '|' || state || '|' || generation || '|' || attempt || '|' || coalesce(CAST(lease_token AS text), '-')
                || '|' || {rest} || '|priority ' || priority || '|' || CAST(payload AS text)
                || '|key ' || coalesce((SELECT CAST(k.states AS text) FROM leasehold.unique_keys AS k
                    WHERE k.key = j.unique_key AND k.job_id = j.id), '-')
                || '|effects ' || (SELECT count(*) FROM effects AS e WHERE e.job = j.id) AS value
             FROM {table} AS j"
        )
    };
    let open = both(
        "leasehold.jobs",
        &format!(
            "'begun ' || CAST(begun AS integer)
             || '|lease ' || CASE WHEN lease_until IS NULL THEN '-' WHEN {until} < {soon} THEN 'ended' ELSE 'stands' END
             || '|scheduled ' || CAST(scheduled AS integer) || '|blocked ' || coalesce(blocked_by, '-')
             || '|asked to stop ' || CASE WHEN cancel_requested_at IS NULL THEN 0 ELSE 1 END
             || '|due ' || CASE WHEN {run_at} > {late} THEN 'later' ELSE CAST({run_at} - {BASE} AS text) END
             || '|age ' || CASE WHEN expires_at IS NULL THEN 'any' WHEN {expires} <= {late} THEN 'too old' ELSE 'limited' END"
        ),
    );
    let ended = both("leasehold.finished_jobs", "'reason ' || coalesce(reason, '-')");
    let rows = db.texts(&format!("{open} UNION ALL {ended}"));
    rows.into_iter().flatten().collect()
}

/// Job, generation, attempt and cause of each attempt that failed.
pub(crate) fn errors<D: TestDb>(db: &mut D) -> Vec<String> {
    let text = "SELECT job_id || '|failed|' || generation || '|' || attempt || '|' || cause FROM leasehold.job_errors";
    db.texts(text).into_iter().flatten().collect()
}

impl Model {
    pub(crate) fn view(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (id, job) in &self.jobs {
            lines.push(job.line(*id, self.key_states_of(*id, job)));
            for (generation, attempt, cause) in &job.errors {
                lines.push(format!("{id}|failed|{generation}|{attempt}|{cause}"));
            }
        }
        lines.sort_unstable();
        lines
    }

    fn key_states_of(&self, id: usize, job: &Job) -> Option<u8> {
        let holder = self.keys.get(&Key::Unique(job.kind, job.payload.key))?;
        (holder.job == id).then_some(holder.states)
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

impl Job {
    fn line(&self, id: usize, key_states: Option<u8>) -> String {
        let rest = match self.state {
            State::Ready | State::Running => format!(
                "begun {}|lease {}|scheduled {}|blocked {}|asked to stop {}|due {}|age {}",
                i32::from(self.begun),
                match self.state {
                    State::Running if self.lease_ended => "ended",
                    State::Running => "stands",
                    _ => "-",
                },
                i32::from(self.scheduled),
                if self.blocked { "limit" } else { "-" },
                i32::from(self.cancel_requested),
                self.due.map_or("later".to_owned(), |step| step.to_string()),
                match self.age {
                    Age::Any => "any",
                    Age::Limited => "limited",
                    Age::TooOld => "too old",
                },
            ),
            _ => format!("reason {}", or_dash(self.reason)),
        };
        let payload = format!(r#"{{"key":{},"text":{}}}"#, self.payload.key, self.payload.text);
        format!(
            "{id}|{}|{}|{}|{}|{rest}|priority {}|{payload}|key {}|effects {}",
            self.state,
            self.generation,
            self.attempt,
            or_dash(self.token),
            self.priority,
            or_dash(key_states),
            self.effects,
        )
    }
}
