//! Admission: jobs that wait for a limit are let through when there is room for them.
//!
//! Room is counted from the rows ([`AdmitStatements::room`]), so what counts must not grow between the count and the
//! admission. Only admissions let it grow, and only one of them runs at a time, in all processes: a transaction that has
//! an advisory lock from its first statement on, and counts in the statements after it. Everything else (an end, a retry,
//! a sweep, a cancel) only makes room, and needs no lock.

use diesel::result::QueryResult;

use crate::backend::{AdmitStatements, Backend, Keys, KindLimit, Room};
use crate::commit::depth;
use crate::schema::Schema;
use crate::transaction::atomically;

/// Keys that one transaction looks at.
pub(crate) const KEYS: usize = 256;
/// The most that a statement admits of one key.
const MOST: i64 = 1000;

/// What an admission found.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    pub(crate) admitted: usize,
    /// Whether there is room that was not used: a row was locked, or there were too many for one statement.
    pub(crate) more: bool,
    /// Milliseconds until a rate has room for one more.
    pub(crate) next_ms: Option<i64>,
    /// The keys that were looked at.
    pub(crate) looked: usize,
    pub(crate) last_key: Option<String>,
}

/// Runs `work` as the only one that admits; `None` when another process is at it.
pub(crate) fn alone<C: Backend, T>(
    conn: &mut C,
    schema: &Schema,
    work: impl FnOnce(&mut C) -> QueryResult<T>,
) -> QueryResult<Option<T>> {
    // In a test's own transaction nobody else sees what is admitted. The lock would keep other tests waiting.
    let is_test = depth(conn)? > 0;
    atomically(conn, |conn| match is_test || conn.try_lock_admission(schema)? {
        true => work(conn).map(Some),
        false => Ok(None),
    })
}

/// Admits what there is room for among `keys`; part of [`alone`].
pub(crate) fn admit<C: AdmitStatements>(
    conn: &mut C,
    schema: &Schema,
    limit: &KindLimit,
    keys: Keys<'_>,
) -> QueryResult<Admission> {
    let mut rooms = conn.room(schema, limit, keys)?;
    let mut admission = Admission {
        looked: rooms.len(),
        last_key: rooms.last().map(|room| room.limit_key.clone()),
        next_ms: rooms.iter().filter_map(|room| room.next_ms).min(),
        ..Admission::default()
    };
    rooms.retain(|room| room.room > 0);
    if !rooms.is_empty() {
        admission.admitted = conn.admit(schema, &limit.kind, &rooms)?;
        admission.more = admission.admitted < rooms.len() || rooms.iter().any(|room: &Room| room.room >= MOST);
    }
    Ok(admission)
}

/// Admits all that there is room for, key by key: for tests that run jobs one by one.
///
/// # Errors
///
/// The database's.
pub fn admit_all<C: Backend>(conn: &mut C, schema: &Schema, limits: &[KindLimit]) -> QueryResult<()> {
    let kinds: Vec<&str> = limits.iter().map(|limit| limit.kind.as_str()).collect();
    let blocked = conn.blocked_kinds(schema, &kinds)?;
    for limit in limits.iter().filter(|limit| blocked.contains(&limit.kind)) {
        let mut key = String::new();
        loop {
            let at_most = i64::try_from(KEYS).unwrap_or(i64::MAX);
            let admission = alone(conn, schema, |conn| {
                admit(conn, schema, limit, Keys::After(&key, at_most))
            })?;
            // A worker beside the test is at it.
            let Some(admission) = admission else {
                std::thread::yield_now();
                continue;
            };
            match admission.last_key {
                Some(last) if admission.looked == KEYS => key = last,
                _ => break,
            }
        }
    }
    Ok(())
}
