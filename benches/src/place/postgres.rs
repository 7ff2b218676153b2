use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer};
use leasehold::Worker;

use super::{Bench, Leftover, Number, OneText, Place};
use crate::cost::{self, Spent};
use crate::jobs::Kind;
use crate::raw::postgres::Postgres;
use crate::{Answer, Report};

impl Bench for PgConnection {
    type Raw = Postgres;

    const TABLE: &'static str =
        "CREATE TABLE bench_rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job bigint NOT NULL)";

    const ONE_WRITER: bool = false;

    fn create(place: &Place) -> Answer<(String, Leftover)> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let url = place.server.as_deref().ok_or("no server is named")?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("leasehold_bench_{}_{number}", std::process::id());
        let mut server = Self::establish(url)?;
        server.batch_execute(&format!("CREATE DATABASE {name}"))?;
        let leftover = Leftover::Database {
            name: name.clone(),
            server: Box::new(server),
        };
        Ok((with_database(url, &name), leftover))
    }

    fn register(worker: Worker<Self, ()>, kind: Kind) -> Worker<Self, ()> {
        kind.register(worker)
    }

    fn describe(&mut self, report: &mut Report) -> Answer {
        let settings = [
            "server_version",
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "shared_buffers",
        ];
        for setting in settings {
            let asked = format!("SELECT pg_catalog.current_setting('{setting}') AS text");
            let value: OneText = diesel::sql_query(asked).get_result(self)?;
            let name = match setting {
                "server_version" => "PostgreSQL",
                other => other,
            };
            report.note(name, value.text);
        }
        Ok(())
    }

    fn completing_transactions(&mut self) -> Answer<Option<i64>> {
        let asked = "SELECT count(DISTINCT xmin::text) AS number FROM leasehold.finished_jobs";
        Ok(Some(diesel::sql_query(asked).get_result::<Number>(self)?.number))
    }

    fn claims(&mut self) -> Answer<i64> {
        let asked = "SELECT count(DISTINCT lease_token) AS number FROM leasehold.finished_jobs";
        Ok(diesel::sql_query(asked).get_result::<Number>(self)?.number)
    }

    fn spent(&mut self) -> Answer<Vec<Spent>> {
        let counted = settled_counters(self)?;
        let mut spent = vec![
            Spent::new("WAL", "bytes/job", counted.wal),
            Spent::new("commits", "per job", counted.commits),
            Spent::new("dead row versions", "per job", counted.dead),
        ];
        spent.extend(cost::server_cpu(counted.backend));
        Ok(spent)
    }
}

/// The statistics are told when sessions end, so of those that are still there nothing is known.
const COUNTERS: &str = "
    SELECT (SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()) AS sessions,
        pg_backend_pid() AS backend,
        (pg_current_wal_insert_lsn() - '0/0')::bigint AS wal,
        (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS commits,
        (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = 'leasehold') AS dead
";

#[derive(QueryableByName, Clone, Copy, PartialEq, Eq)]
struct Counters {
    #[diesel(sql_type = BigInt)]
    sessions: i64,
    #[diesel(sql_type = Integer)]
    backend: i32,
    #[diesel(sql_type = BigInt)]
    wal: i64,
    #[diesel(sql_type = BigInt)]
    commits: i64,
    #[diesel(sql_type = BigInt)]
    dead: i64,
}

/// The counters once nobody else is there and the rows stand still: older servers are told of them late.
fn settled_counters(conn: &mut PgConnection) -> Answer<Counters> {
    let mut before: Option<Counters> = None;
    for _ in 0..100 {
        let now: Counters = diesel::sql_query(COUNTERS).get_result(conn)?;
        if now.sessions == 0 && before.is_some_and(|before| before.dead == now.dead) {
            return Ok(now);
        }
        before = Some(now);
        thread::sleep(Duration::from_millis(20));
    }
    Err("sessions of the measurement do not end".into())
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Self::Database { name, server } = self {
            let dropped = server.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"));
            if let Err(error) = dropped {
                eprintln!("{name} stays: {error}");
            }
        }
    }
}

/// The same server, another database: what libpq finds last counts.
fn with_database(url: &str, name: &str) -> String {
    if !url.contains("://") {
        return format!("{url} dbname={name}");
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}dbname={name}")
}
