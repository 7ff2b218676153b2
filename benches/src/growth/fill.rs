//! Rows by the thousand, written in plain SQL: what is there before a measurement begins.

use leasehold::Backend;

use crate::report::Setting;
use crate::{Answer, Bench};

/// What a database is full of, beside the jobs that are worked off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// Ready jobs, in front of which nothing is.
    Ready(usize),
    /// Finished ones.
    Finished(usize),
    /// Jobs of the same kind whose run time is to come.
    Scheduled(usize),
    /// Jobs behind one limit's key.
    Blocked(usize),
    /// Ten jobs behind each of a tenth as many keys.
    BlockedKeys(usize),
    /// Ready jobs of a paused kind.
    Paused(usize),
}

impl Full {
    /// As the report calls it.
    pub(super) fn setting(self) -> Setting {
        let setting = Setting::new();
        match self {
            Self::Ready(jobs) => setting.with("ready", jobs),
            Self::Finished(jobs) => setting.with("finished", jobs),
            Self::Scheduled(jobs) => setting.with("scheduled", jobs),
            Self::Blocked(jobs) => setting.with("blocked", jobs),
            Self::BlockedKeys(jobs) => setting.with("blocked", jobs).with("keys", jobs / 10),
            Self::Paused(jobs) => setting.with("paused", jobs),
        }
    }

    /// The jobs that are kept ready while others are worked off.
    pub(super) fn backlog(self) -> usize {
        match self {
            Self::Ready(jobs) => jobs,
            _ => 1000,
        }
    }

    /// Writes the rows, and leaves the tables as a vacuum leaves them.
    pub(super) fn write<C: Bench>(self, conn: &mut C) -> Answer {
        let dialect = Dialect::of::<C>();
        for statement in self.statements(&dialect) {
            conn.batch_execute(&statement)?;
        }
        // Each by itself: a vacuum is not part of a transaction.
        dialect
            .settle
            .iter()
            .try_for_each(|statement| conn.batch_execute(statement))?;
        Ok(())
    }

    fn statements(self, dialect: &Dialect) -> Vec<String> {
        let jobs = |count: usize, kind: &str, more: &str, values: &str| {
            format!(
                "INSERT INTO {t}jobs (queue, kind, payload, max_attempts, lease_ms, run_at, created_at, {more}) \
                 SELECT 'default', '{kind}', '{payload}', 20, 60000, {now}, {now}, {values} FROM {series}",
                t = dialect.tables,
                payload = payload(),
                now = dialect.now,
                series = (dialect.series)(count),
            )
        };
        match self {
            Self::Ready(count) => vec![jobs(count, "noop", "priority", "0")],
            Self::Finished(count) => vec![format!(
                "INSERT INTO {t}finished_jobs (id, queue, kind, version, payload, state, priority, run_at, attempt, \
                     max_attempts, generation, lease_ms, idempotency_key, created_at, finished_at) \
                 SELECT -n, 'default', 'noop', 1, '{payload}', 'completed', 0, {now}, 1, 20, 1, 60000, \
                     'key ' || n, {now}, {now} FROM {series}",
                t = dialect.tables,
                payload = payload(),
                now = dialect.now,
                series = (dialect.series)(count),
            )],
            Self::Scheduled(count) => {
                let written = jobs(count, "noop", "scheduled", dialect.yes);
                let later = format!("{}, {}", dialect.now, dialect.now);
                vec![written.replacen(&later, &format!("{}, {}", dialect.tomorrow, dialect.now), 1)]
            }
            Self::Blocked(count) => vec![
                // One that nobody serves has the only place.
                jobs(1, "held", "limit_key", "'key'").replacen("'default'", "'nowhere'", 1),
                jobs(count, "held", "limit_key, blocked_by", "'key', 'limit'"),
            ],
            Self::BlockedKeys(count) => vec![
                jobs(count / 10, "held", "limit_key", "'key ' || n").replacen("'default'", "'nowhere'", 1),
                jobs(
                    count,
                    "held",
                    "limit_key, blocked_by",
                    &format!("'key ' || (n % {} + 1), 'limit'", count / 10),
                ),
            ],
            Self::Paused(count) => vec![
                jobs(count, "paused", "priority", "0"),
                format!(
                    "INSERT INTO {t}pauses (scope, name, at, by, reason) VALUES ('kind', 'paused', {now}, 'bench', 'bench')",
                    t = dialect.tables,
                    now = dialect.now
                ),
            ],
        }
    }
}

/// How a backend says it.
struct Dialect {
    tables: &'static str,
    now: &'static str,
    tomorrow: &'static str,
    yes: &'static str,
    series: fn(usize) -> String,
    settle: &'static [&'static str],
}

impl Dialect {
    fn of<C: Backend>() -> Self {
        if C::NAME == "postgres" {
            Self {
                tables: "leasehold.",
                now: "now()",
                tomorrow: "now() + interval '1 day'",
                yes: "true",
                series: |count| format!("generate_series(1, {count}) AS n"),
                settle: &[
                    "VACUUM (ANALYZE) leasehold.jobs",
                    "VACUUM (ANALYZE) leasehold.finished_jobs",
                ],
            }
        } else {
            Self {
                tables: "leasehold_",
                now: "unixepoch() * 1000",
                tomorrow: "unixepoch() * 1000 + 86400000",
                yes: "1",
                series: |count| {
                    format!(
                        "(WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count}) \
                         SELECT n FROM series)"
                    )
                },
                settle: &["PRAGMA wal_checkpoint(TRUNCATE)"],
            }
        }
    }
}

/// About 200 bytes, as a payload often has.
fn payload() -> String {
    format!("{{\"filler\":\"{}\"}}", "x".repeat(200))
}
