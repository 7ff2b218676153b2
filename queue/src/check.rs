//! What is wrong with a database, or will be: settings, tables that are not as the migrations make them, vacuum, transactions
//! that hold it up, jobs that nobody serves, leases that nobody takes back.
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

use crate::backend::{AsBackend, Backend, CheckStatements as _, ConnectionSettings};
use crate::inspect::time;
use crate::schema::Schema;
use crate::settle::millis;
use crate::worker::masked;

mod finding;
pub use finding::{Difference, Finding, Severity};

mod remedy;
mod schema;
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
    pub(crate) pause: Duration,
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
            pause: Duration::from_secs(24 * 3600),
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

    /// A pause that has held for so long; a day by default.
    #[must_use]
    pub fn pause(mut self, age: Duration) -> Self {
        self.pause = age;
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
/// The database's, among them that the tables may not be read.
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
    findings.extend(clock(conn, thresholds)?);
    let tables = schema::look(conn, schema)?;
    findings.extend(tables.finding());
    if tables.are_usable() {
        if tables.are_known() {
            findings.extend(schema::indexes(conn, schema)?);
            findings.extend(schema::drift(conn, schema)?);
        }
        findings.extend(waiting(conn, schema, thresholds)?);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    Ok(findings)
}

/// As [`check_by`], on connections of its own, which set nothing for their session: so it works through a pooler in transaction
/// mode, and finds one. Two connections are open for a moment.
///
/// ```
/// # include!("doctest_setup.rs");
/// use leasehold::Schema;
/// use leasehold::check::{Thresholds, check_at};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, _conn) = doctest_database();
/// let findings = check_at::<SqliteConnection>(&url, &Schema::default(), &Thresholds::default())?;
/// assert!(findings.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`CheckError`], as [`check`] or because there is no connection.
pub fn check_at<C: Backend>(url: &str, schema: &Schema, thresholds: &Thresholds) -> Result<Vec<Finding>, CheckError> {
    let settings = ConnectionSettings {
        transaction_pooler: true,
        ..ConnectionSettings::default()
    };
    let connect = || C::connect(url, &settings).map_err(|error| CheckError::Connect(masked(url, &error)));
    let mut conn = connect()?;
    let pooled = has_pooler(&mut conn, &mut connect()?)?;
    let mut findings = check_by(&mut conn, schema, thresholds)?;
    findings.extend(pooled.then_some(Finding::TransactionPooler));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    Ok(findings)
}

/// A check on a connection of its own did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// A statement failed, among them that the tables may not be read.
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

/// Two connections that are open at once have two sessions of the server, and keep them, unless somebody between deals them out.
fn has_pooler<C: Backend>(one: &mut C, other: &mut C) -> QueryResult<bool> {
    const TRIES: usize = 5;
    let Some(first) = one.session()? else { return Ok(false) };
    for _ in 0..TRIES {
        let now = [one.session()?, other.session()?];
        if now[0] == now[1] || now[0] != Some(first) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What waits in the tables and should not.
fn waiting<C: Backend>(conn: &mut C, schema: &Schema, thresholds: &Thresholds) -> QueryResult<Vec<Finding>> {
    let mut findings: Vec<Finding> = leases(conn, schema, thresholds)?.into_iter().collect();
    let queues = conn.unserved_queues(schema)?;
    findings.extend(queues.into_iter().map(|queue| Finding::QueueUnserved { queue }));
    for row in conn.unserved_kinds(schema)? {
        findings.push(Finding::KindUnserved {
            queue: row.queue,
            kind: row.kind,
            version: row.version,
        });
    }
    for late in conn.late_schedules(schema, millis(thresholds.schedule))? {
        let by = Duration::from_millis(late.late_ms.unsigned_abs());
        findings.push(Finding::ScheduleLate { name: late.name, by });
    }
    let now = conn.clock_ms()?;
    for pause in conn.pauses(schema)? {
        let since = Duration::from_millis(u64::try_from(now.saturating_sub(pause.at_ms)).unwrap_or_default());
        if since >= thresholds.pause {
            findings.push(Finding::PausedForLong {
                scope: pause.scope,
                name: pause.name,
                since,
                by: pause.by,
                reason: pause.reason,
            });
        }
    }
    Ok(findings)
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
