//! The server, and an empty database for each measurement.

use std::collections::BTreeSet;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use crate::child::Outcome;

const URL_VARIABLE: &str = "LEASEHOLD_TEST_DATABASE_URL";
const DATABASE: &str = "leasehold_peers";

/// The database that has a system's empty tables.
fn tables_of(system: &str) -> String {
    format!("{DATABASE}_{}", system.replace('-', ""))
}

pub(crate) struct Server {
    conn: PgConnection,
    url: String,
    /// The systems whose empty tables are kept.
    kept: BTreeSet<&'static str>,
    /// For the report.
    pub(crate) version: String,
}

#[derive(QueryableByName)]
struct Settings {
    #[diesel(sql_type = Text)]
    version: String,
    #[diesel(sql_type = Text)]
    durable: String,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

impl Server {
    /// The server that the environment names.
    ///
    /// # Errors
    ///
    /// If it does not keep what it acknowledges: no figure of such a server means anything here.
    pub(crate) fn connect() -> Outcome<Self> {
        let url =
            std::env::var(URL_VARIABLE).map_err(|_| format!("{URL_VARIABLE} is not set: use benches/peers/run"))?;
        // Not all of the clients understand a URL without a host; its parameter `host` counts for all of them.
        let url = url.replacen("@/", "@localhost/", 1);
        let mut conn = PgConnection::establish(&url)?;
        let settings: Settings = diesel::sql_query(
            "SELECT current_setting('server_version') AS version, concat_ws(' ', current_setting('fsync'), \
             current_setting('synchronous_commit'), current_setting('full_page_writes')) AS durable",
        )
        .get_result(&mut conn)?;
        if settings.durable != "on on on" {
            let found = settings.durable;
            return Err(format!("fsync, synchronous_commit and full_page_writes must be on, they are: {found}").into());
        }
        Ok(Self {
            conn,
            url,
            kept: BTreeSet::new(),
            version: settings.version,
        })
    }

    /// A database in place of the last one, with the system's empty tables once they are kept, and its URL. Dropping the
    /// last one made a checkpoint: all begin after one.
    pub(crate) fn fresh(&mut self, system: &str) -> Outcome<String> {
        let template = match self.keeps(system) {
            true => tables_of(system),
            false => "template0".to_owned(),
        };
        self.conn
            .batch_execute(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))?;
        self.conn
            .batch_execute(&format!("CREATE DATABASE {DATABASE} TEMPLATE {template}"))?;
        let (address, parameters) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let (server, _) = address.rsplit_once('/').ok_or("the URL names no database")?;
        Ok(format!("{server}/{DATABASE}?{parameters}"))
    }

    pub(crate) fn keeps(&self, system: &str) -> bool {
        self.kept.contains(system)
    }

    /// Keeps the present database as the one that this system's measurements begin with: some make their tables for
    /// seconds.
    pub(crate) fn keep(&mut self, system: &'static str) -> Outcome<()> {
        let tables = tables_of(system);
        // The child has ended, but its sessions may not have.
        for statement in [
            format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{DATABASE}'"),
            format!("DROP DATABASE IF EXISTS {tables} WITH (FORCE)"),
            format!("ALTER DATABASE {DATABASE} RENAME TO {tables}"),
        ] {
            self.conn.batch_execute(&statement)?;
        }
        self.kept.insert(system);
        Ok(())
    }

    /// Leaves the server as it was.
    pub(crate) fn clear(&mut self) -> Outcome<()> {
        self.conn
            .batch_execute(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))?;
        for system in std::mem::take(&mut self.kept) {
            let tables = tables_of(system);
            self.conn
                .batch_execute(&format!("DROP DATABASE IF EXISTS {tables} WITH (FORCE)"))?;
        }
        Ok(())
    }
}

/// Counts with `query` in the database at `url`, after the measurement: with the statistics of before it, one system's view
/// took a plan that ran for minutes.
pub(crate) fn count(url: &str, query: &str) -> Outcome<i64> {
    let mut conn = PgConnection::establish(url)?;
    conn.batch_execute("ANALYZE")?;
    let count: Count = diesel::sql_query(query).get_result(&mut conn)?;
    Ok(count.count)
}
