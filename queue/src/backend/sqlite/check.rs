//! What a check reads.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::now_ms;
use crate::backend::{CheckStatements, ExpiredRow, IndexRow, LateRow, UnservedRow};
use crate::check::{Finding, Thresholds};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// `file` is empty for a database in memory or in a temporary file.
const SETTINGS: &str = "
    SELECT (SELECT file FROM pragma_database_list WHERE name = 'main') AS file,
        (SELECT journal_mode FROM pragma_journal_mode) AS journal_mode,
        (SELECT synchronous FROM pragma_synchronous) AS synchronous,
        (SELECT page_size FROM pragma_page_size) AS page_size,
        (SELECT page_count FROM pragma_page_count) AS pages,
        (SELECT freelist_count FROM pragma_freelist_count) AS free_pages
";

// Those of a primary key have no text.
const INDEXES: &str = "SELECT name, 1 AS valid FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";

const EXPIRED_LEASES: &str = "
    SELECT count(*) AS jobs, coalesce($2 - min(lease_until), 0) AS oldest_ms, NULL AS locked_by FROM (
        SELECT lease_until FROM leasehold_jobs
        WHERE worker IS NOT NULL AND state = 'running' AND lease_until <= $2 - $1 LIMIT 1000
    )
";

// From queue to queue in the claim's index.
const UNSERVED_QUEUES: &str = "
    WITH RECURSIVE queues (queue, place) AS (
        SELECT * FROM (
            SELECT queue, 1 FROM leasehold_jobs
            WHERE state = 'ready' AND scheduled = 0 AND blocked_by IS NULL ORDER BY queue LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT j.queue FROM leasehold_jobs AS j
            WHERE j.state = 'ready' AND j.scheduled = 0 AND j.blocked_by IS NULL AND j.queue > queues.queue
            ORDER BY j.queue LIMIT 1
        ), queues.place + 1
        FROM queues WHERE queues.place < 1000 AND queues.queue IS NOT NULL
    )
    SELECT queue AS name FROM queues
    WHERE queue IS NOT NULL AND queue NOT IN (
        SELECT served.value FROM leasehold_workers AS w, json_each(w.queues) AS served WHERE w.heartbeat_at > $1 - 60000
    )
    ORDER BY queue
";

// As above, from one kind and version to the next. A worker has handlers for a kind's versions up to the one that it shows.
const UNSERVED_KINDS: &str = "
    WITH RECURSIVE kinds (queue, kind, version, place) AS (
        SELECT * FROM (
            SELECT queue, kind, version, 1 FROM leasehold_jobs
            WHERE state = 'ready' AND scheduled = 0 AND blocked_by IS NULL ORDER BY queue, kind, version LIMIT 1
        )
        UNION ALL
        SELECT following.queue, following.kind, following.version, kinds.place + 1
        FROM kinds CROSS JOIN leasehold_jobs AS following ON following.id = (
            SELECT j.id FROM leasehold_jobs AS j
            WHERE j.state = 'ready' AND j.scheduled = 0 AND j.blocked_by IS NULL
              AND (j.queue, j.kind, j.version) > (kinds.queue, kinds.kind, kinds.version)
            ORDER BY j.queue, j.kind, j.version LIMIT 1
        )
        WHERE kinds.place < 1000
    ),
    served AS MATERIALIZED (
        SELECT w.id, served.value AS queue FROM leasehold_workers AS w, json_each(w.queues) AS served
        WHERE w.heartbeat_at > $1 - 60000
    ),
    handled AS MATERIALIZED (
        SELECT s.queue, handled.value->>0 AS kind, max(handled.value->>1) AS version
        FROM served AS s JOIN leasehold_workers AS w ON w.id = s.id, json_each(w.kinds) AS handled
        GROUP BY 1, 2
    )
    SELECT k.queue, k.kind, k.version FROM kinds AS k
    WHERE k.queue IN (SELECT s.queue FROM served AS s)
      AND NOT EXISTS (SELECT 1 FROM handled AS h WHERE h.queue = k.queue AND h.kind = k.kind AND h.version >= k.version)
    ORDER BY k.queue, k.kind, k.version
";

const LATE_SCHEDULES: &str = "
    SELECT name, $2 - next_at AS late_ms FROM leasehold_schedules
    WHERE paused = 0 AND next_at <= $2 - $1 ORDER BY next_at LIMIT 100
";

#[derive(QueryableByName)]
struct Settings {
    #[diesel(sql_type = Text)]
    file: String,
    #[diesel(sql_type = Text)]
    journal_mode: String,
    #[diesel(sql_type = Integer)]
    synchronous: i32,
    #[diesel(sql_type = BigInt)]
    page_size: i64,
    #[diesel(sql_type = BigInt)]
    pages: i64,
    #[diesel(sql_type = BigInt)]
    free_pages: i64,
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

impl CheckStatements for SqliteConnection {
    fn server_findings(&mut self, _: &Schema, thresholds: &Thresholds) -> QueryResult<Vec<Finding>> {
        let settings: Settings = Sql(SETTINGS, ()).get_result(self)?;
        let mut findings = Vec::new();
        if let Some(value) = match settings.synchronous {
            0 => Some("OFF"),
            1 => Some("NORMAL"),
            _ => None,
        } {
            let value = value.to_owned();
            findings.push(Finding::UnsafeSetting {
                name: "synchronous",
                value,
            });
        }
        if settings.file.is_empty() {
            return Ok(findings);
        }
        if settings.journal_mode != "wal" {
            let mode = settings.journal_mode;
            findings.push(Finding::JournalMode { mode });
        }
        // Its length is no setting, so the file itself is asked; without one there is nothing to write back.
        let bytes = std::fs::metadata(format!("{}-wal", settings.file)).map_or(0, |file| file.len());
        if bytes >= thresholds.wal_bytes {
            findings.push(Finding::WalFile { bytes });
        }
        let bytes = settings.page_size.saturating_mul(settings.free_pages).unsigned_abs();
        if bytes >= thresholds.wal_bytes && settings.free_pages.saturating_mul(5) >= settings.pages {
            findings.push(Finding::FreePages { bytes });
        }
        Ok(findings)
    }

    fn session(&mut self) -> QueryResult<Option<i32>> {
        Ok(None)
    }

    fn index_rows(&mut self, _: &Schema) -> QueryResult<Vec<IndexRow>> {
        Sql(INDEXES, ()).load(self)
    }

    fn clock_ms(&mut self) -> QueryResult<i64> {
        Ok(now_ms())
    }

    fn expired_leases(&mut self, schema: &Schema, for_ms: i64) -> QueryResult<ExpiredRow> {
        let binds = (bind::<BigInt, _>(for_ms), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(EXPIRED_LEASES), binds).get_result(self)
    }

    fn unserved_queues(&mut self, schema: &Schema) -> QueryResult<Vec<String>> {
        let queues: Vec<Name> = Sql(schema.render(UNSERVED_QUEUES), (bind::<BigInt, _>(now_ms()),)).load(self)?;
        Ok(queues.into_iter().map(|queue| queue.name).collect())
    }

    fn unserved_kinds(&mut self, schema: &Schema) -> QueryResult<Vec<UnservedRow>> {
        Sql(schema.render(UNSERVED_KINDS), (bind::<BigInt, _>(now_ms()),)).load(self)
    }

    fn late_schedules(&mut self, schema: &Schema, by_ms: i64) -> QueryResult<Vec<LateRow>> {
        let binds = (bind::<BigInt, _>(by_ms), bind::<BigInt, _>(now_ms()));
        Sql(schema.render(LATE_SCHEDULES), binds).load(self)
    }
}
