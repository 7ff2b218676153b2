//! Which database is meant, and how it is opened.

use std::error::Error;

use crate::tables::{CREATE, Tables};

/// What `--database` can lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    /// What a URL leads to, or what to say to the user.
    pub(crate) fn of(url: &str) -> Result<Self, String> {
        match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres),
            Some((scheme, _)) => Err(format!(
                "no backend for {scheme}:// (give a file's name, or postgres://…)"
            )),
            None if url.is_empty() || url == ":memory:" => {
                Err("the database has to be a file, or postgres://…".to_owned())
            }
            None => Ok(Self::Sqlite),
        }
    }

    /// What to say when the program lacks it.
    #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
    pub(crate) fn is_not_built_in(self) -> String {
        let (name, features) = match self {
            Self::Sqlite => ("SQLite", "--features sqlite"),
            Self::Postgres => (
                "PostgreSQL",
                "--features postgres, or postgres-bundled where there is no libpq",
            ),
        };
        format!("this program was built without {name}: build it with {features}")
    }
}

/// What differs between the backends when the tables are made.
pub(crate) trait Dialect {
    /// How long a statement waits for another process's lock.
    const WAIT: &str;
    /// Makes the processes that start at once create the tables one after the other.
    const LOCK: &str;
}

#[cfg(feature = "sqlite")]
impl Dialect for diesel::SqliteConnection {
    const WAIT: &str = "PRAGMA busy_timeout = 60000";
    // A transaction that begins with a write has the only write lock.
    const LOCK: &str = "";
}

#[cfg(feature = "postgres")]
impl Dialect for diesel::PgConnection {
    const WAIT: &str = "SET lock_timeout = '60s'";
    // Without it, two CREATE TABLE IF NOT EXISTS can collide in the catalog. Any number that all processes agree on.
    const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(1768780399)";
}

/// Connects, and makes what is missing: the queue's tables and those of this program.
pub(crate) fn open<C: Tables>(url: &str) -> Result<C, Box<dyn Error>> {
    let mut conn = C::establish(url).map_err(|error| format!("cannot open the database: {error}"))?;
    conn.batch_execute(C::WAIT)?;
    leasehold::migrate(&mut conn)?;
    conn.transaction(|conn| {
        conn.batch_execute(C::LOCK)?;
        conn.batch_execute(CREATE)
    })?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_tells_the_backend() {
        assert_eq!(Kind::of("import.db"), Ok(Kind::Sqlite));
        assert_eq!(Kind::of("postgres://host/name"), Ok(Kind::Postgres));
        assert!(
            Kind::of("mysql://host/name")
                .unwrap_err()
                .contains("no backend for mysql://")
        );
        assert!(Kind::of(":memory:").is_err());
    }
}
