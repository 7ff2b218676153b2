//! What live workers serve.

use diesel::result::QueryResult;

use crate::backend::{AsBackend, KindRow, WorkerStatements};
use crate::schema::Schema;

/// A kind that a live worker process has a handler for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServedKind {
    /// The kind, or an alias of one.
    pub kind: String,
    /// The highest version of a payload that a handler for it takes.
    pub version: u32,
}

impl From<KindRow> for ServedKind {
    fn from(row: KindRow) -> Self {
        Self {
            kind: row.kind,
            version: row.version.unsigned_abs(),
        }
    }
}

/// The kinds that worker processes serve which have shown themselves within the last minute, by name. A process shows itself
/// every ten seconds or so, and takes its row with it when it stops.
///
/// # Errors
///
/// The database's.
///
/// ```
/// # include!("../doctest_setup.rs");
/// use leasehold::{Schema, inspect};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_url, mut conn) = doctest_database();
/// // No worker runs: a job of whatever kind would wait.
/// assert!(inspect::served(&mut conn, &Schema::default())?.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn served(conn: &mut impl AsBackend, schema: &Schema) -> QueryResult<Vec<ServedKind>> {
    let rows = conn.as_backend().served_kinds(schema)?;
    Ok(rows.into_iter().map(Into::into).collect())
}
