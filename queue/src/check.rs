//! What is wrong with a database, or will be: settings, vacuum, transactions that hold it up, leases that nobody takes back.
//!
//! A check only reads, as any role that may read the queue's tables, and looks at statistics and at the ends of indexes: it takes
//! milliseconds however much there is. On PostgreSQL a role sees when another role's transaction began only as a member of
//! `pg_read_all_stats`; a check says so if it could not.
//!
//! ```
//! # include!("doctest_setup.rs");
//! use leasehold::check::{check, Severity};
//! use leasehold::Schema;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_url, mut conn) = doctest_database();
//! for finding in check(&mut conn, &Schema::default())? {
//!     println!("{}: {finding}. {}", finding.severity(), finding.remedy());
//! }
//! # Ok(())
//! # }
//! ```

use std::time::{Duration, SystemTime};

use diesel::result::QueryResult;

use crate::backend::{AsBackend, Backend, CheckStatements};
use crate::inspect::time;
use crate::schema::Schema;
use crate::settle::millis;

mod finding;
pub use finding::{Finding, Severity};

mod words;

/// From when on something is found.
///
/// ```
/// use std::time::Duration;
/// use leasehold::check::Thresholds;
///
/// let strict = Thresholds::default().transaction(Duration::from_secs(30));
/// # let _ = strict;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    pub(crate) transaction: Duration,
    pub(crate) lease: Duration,
    pub(crate) schedule: Duration,
    pub(crate) clock: Duration,
    pub(crate) dead_rows: u64,
    pub(crate) wal_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            transaction: Duration::from_secs(300),
            lease: Duration::from_secs(10),
            schedule: Duration::from_secs(60),
            clock: Duration::from_secs(1),
            dead_rows: 50_000,
            wal_bytes: 64 << 20,
        }
    }
}

impl Thresholds {
    /// A transaction, prepared or not, that has been open for so long; five minutes by default.
    #[must_use]
    pub fn transaction(mut self, age: Duration) -> Self {
        self.transaction = age;
        self
    }

    /// A lease that ended so long ago and that nobody has taken back; ten seconds by default.
    #[must_use]
    pub fn lease(mut self, age: Duration) -> Self {
        self.lease = age;
        self
    }

    /// A schedule that should have fired so long ago; a minute by default.
    #[must_use]
    pub fn schedule(mut self, age: Duration) -> Self {
        self.schedule = age;
        self
    }

    /// So much between the clocks of this program and the server; a second by default.
    #[must_use]
    pub fn clock(mut self, difference: Duration) -> Self {
        self.clock = difference;
        self
    }

    /// So many dead rows in a table, if they are a fifth of it, too; 50,000 by default.
    #[must_use]
    pub fn dead_rows(mut self, rows: u64) -> Self {
        self.dead_rows = rows;
        self
    }

    /// A write-ahead log of SQLite of so many bytes, and as many bytes of pages that are free; 64 MiB by default.
    #[must_use]
    pub fn wal_bytes(mut self, bytes: u64) -> Self {
        self.wal_bytes = bytes;
        self
    }
}

/// What is found with the default [`Thresholds`], the worst first.
///
/// # Errors
///
/// The database's, among them that the tables are missing or may not be read.
pub fn check(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<Finding>> {
    check_by(conn, schema, &Thresholds::default())
}

/// As [`check`], with other thresholds.
///
/// # Errors
///
/// As [`check`].
pub fn check_by(conn: &mut impl AsBackend, schema: &Schema, thresholds: &Thresholds) -> QueryResult<Vec<Finding>> {
    let conn = conn.as_backend();
    let mut findings = conn.server_findings(schema, thresholds)?;
    findings.extend(indexes(conn, schema)?);
    findings.extend(clock(conn, thresholds)?);
    findings.extend(leases(conn, schema, thresholds)?);
    let queues = conn.unserved_queues(schema)?;
    findings.extend(queues.into_iter().map(|queue| Finding::QueueUnserved { queue }));
    for late in conn.late_schedules(schema, millis(thresholds.schedule))? {
        let by = Duration::from_millis(late.late_ms.unsigned_abs());
        findings.push(Finding::ScheduleLate { name: late.name, by });
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    Ok(findings)
}

/// Which indexes of the applied migrations are missing, or were left by a build that failed.
fn indexes<C: Backend>(conn: &mut C, schema: &Schema) -> QueryResult<Vec<Finding>> {
    let applied = conn.applied(schema)?;
    let there = conn.index_rows(schema)?;
    let scripts = C::MIGRATIONS.iter().filter(|script| {
        let version = script.name.split('_').next().unwrap_or_default();
        applied.iter().any(|applied| applied == version)
    });
    let mut findings = Vec::new();
    for script in scripts {
        let text = schema.render_once(script.up);
        for index in index_names(&text) {
            match there.iter().find(|row| row.name == index) {
                Some(row) if row.valid => {}
                found => findings.push(Finding::Index {
                    name: index.to_owned(),
                    invalid: found.is_some(),
                }),
            }
        }
    }
    Ok(findings)
}

/// The names of the indexes that a script makes.
fn index_names(script: &str) -> impl Iterator<Item = &str> {
    script.lines().filter_map(|line| {
        let rest = line
            .strip_prefix("CREATE INDEX ")
            .or_else(|| line.strip_prefix("CREATE UNIQUE INDEX "))?;
        rest.split_whitespace().next()
    })
}

fn clock<C: Backend>(conn: &mut C, thresholds: &Thresholds) -> QueryResult<Option<Finding>> {
    let before = SystemTime::now();
    let server = time(conn.clock_ms()?);
    Ok(difference(before, server, SystemTime::now(), thresholds.clock))
}

/// The server's clock was read to the millisecond, somewhere between two looks at ours.
fn difference(before: SystemTime, server: SystemTime, after: SystemTime, least: Duration) -> Option<Finding> {
    let behind = before
        .duration_since(server + Duration::from_millis(1))
        .unwrap_or_default();
    let ahead = server.duration_since(after).unwrap_or_default();
    (behind.max(ahead) >= least).then_some(Finding::Clock { ahead, behind })
}

fn leases<C: Backend>(conn: &mut C, schema: &Schema, thresholds: &Thresholds) -> QueryResult<Option<Finding>> {
    let row = conn.expired_leases(schema, millis(thresholds.lease))?;
    Ok((row.jobs > 0).then(|| Finding::LeasesExpired {
        jobs: row.jobs.unsigned_abs(),
        oldest: Duration::from_millis(row.oldest_ms.unsigned_abs()),
        locked_by: row.locked_by,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Finding, difference};

    #[test]
    fn clocks_differ_by_what_no_delay_of_the_answer_explains() {
        let at = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms);
        let second = Duration::from_secs(1);
        let found = |server| difference(at(0), at(server), at(500), second);
        assert_eq!((found(0), found(500), found(1_499)), (None, None, None));
        let ahead = |ms: u64, behind: u64| Finding::Clock {
            ahead: Duration::from_millis(ms),
            behind: Duration::from_millis(behind),
        };
        assert_eq!(found(1_500), Some(ahead(1_000, 0)));
        let slow = difference(at(5_000), at(0), at(5_500), second).unwrap();
        assert_eq!(slow, ahead(0, 4_999));
        assert!(slow.to_string().contains("4999 ms behind"), "{slow}");
        assert!(found(1_500).unwrap().to_string().contains("1000 ms ahead"));
    }
}
