use std::time::Duration;

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use super::check_settings::settings_findings;
use crate::backend::{CheckStatements, ExpiredRow, IndexRow, LateRow, UnservedRow};
use crate::check::{Finding, Thresholds};
use crate::schema::Schema;
use crate::settle::millis;
use crate::sql::{Sql, bind};

const TABLES: &str = "
    SELECT s.relname::pg_catalog.text AS name, s.n_dead_tup AS dead, s.n_live_tup AS live,
        pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) * 1000)::bigint
            AS vacuumed_ms,
        coalesce((
            SELECT NOT option.value::boolean FROM pg_catalog.unnest(c.reloptions) AS set (text)
            CROSS JOIN LATERAL (SELECT pg_catalog.split_part(set.text, '=', 2) AS value) AS option
            WHERE set.text LIKE 'autovacuum_enabled=%'
        ), false) AS off
    FROM pg_catalog.pg_stat_user_tables AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
    WHERE s.schemaname = $1 ORDER BY s.relname
";

// One that has read or written nothing holds nothing up, and vacuum does not wait for other vacuums.
const OLD_TRANSACTIONS: &str = "
    SELECT pid, pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - xact_start) * 1000)::bigint AS age_ms,
        coalesce(application_name, '') AS name
    FROM pg_catalog.pg_stat_activity
    WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() AND backend_type <> 'autovacuum worker'
      AND xact_start <= pg_catalog.clock_timestamp() - $1 * INTERVAL '1 millisecond'
      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    ORDER BY xact_start LIMIT 20
";

const HIDDEN_SESSIONS: &str = "
    SELECT pg_catalog.count(*) AS sessions FROM pg_catalog.pg_stat_activity
    WHERE datname = pg_catalog.current_database() AND backend_type IS NULL
";

const PREPARED: &str = "
    SELECT 0 AS pid, pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - prepared) * 1000)::bigint AS age_ms, gid AS name
    FROM pg_catalog.pg_prepared_xacts
    WHERE database = pg_catalog.current_database() AND prepared <= pg_catalog.clock_timestamp() - $1 * INTERVAL '1 millisecond'
    ORDER BY prepared LIMIT 20
";

const IDLE_SLOTS: &str = "
    SELECT slot_name::pg_catalog.text AS name FROM pg_catalog.pg_replication_slots
    WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL OR restart_lsn IS NOT NULL) ORDER BY slot_name LIMIT 20
";

const INDEXES: &str = "
    SELECT c.relname::pg_catalog.text AS name, i.indisvalid AND i.indisready AS valid
    FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)
";

const SESSION: &str = "SELECT pg_catalog.pg_backend_pid() AS pid";

const CLOCK: &str = "SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS ms";

// Whoever has a row locked is in its xmax, and holds the lock on that transaction's id. So a role that may lock nothing sees it,
// too; of several that share a lock it is not seen.
const EXPIRED_LEASES: &str = "
    WITH running AS MATERIALIZED (
        SELECT transactionid, pid FROM pg_catalog.pg_locks WHERE locktype = 'transactionid' AND granted
    ),
    expired AS MATERIALIZED (
        SELECT j.lease_until, j.xmax AS locker FROM leasehold.jobs AS j
        WHERE j.worker IS NOT NULL AND j.state = 'running'
          AND j.lease_until <= (SELECT pg_catalog.clock_timestamp()) - $1 * INTERVAL '1 millisecond'
        LIMIT 1000
    )
    SELECT pg_catalog.count(*) AS jobs, pg_catalog.max(r.pid) AS locked_by,
        coalesce(pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(e.lease_until)) * 1000), 0)::bigint
            AS oldest_ms
    FROM expired AS e LEFT JOIN running AS r ON r.transactionid = e.locker
";

// From queue to queue in the claim's index.
const UNSERVED_QUEUES: &str = "
    WITH RECURSIVE queues (queue, place) AS (
        (SELECT j.queue, 1 FROM leasehold.jobs AS j
         WHERE j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT following.queue, queues.place + 1 FROM queues CROSS JOIN LATERAL (
            SELECT j.queue FROM leasehold.jobs AS j
            WHERE j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL AND j.queue > queues.queue
            ORDER BY j.queue LIMIT 1
        ) AS following
        WHERE queues.place < 1000
    )
    SELECT queue AS name FROM queues
    WHERE queue <> ALL (ARRAY(
        SELECT served.queue FROM leasehold.workers AS w
        CROSS JOIN LATERAL pg_catalog.json_array_elements_text(w.queues) AS served (queue)
        WHERE w.heartbeat_at > pg_catalog.clock_timestamp() - INTERVAL '1 minute'
    ))
    ORDER BY queue
";

// As above, from one kind and version to the next. A worker has handlers for a kind's versions up to the one that it shows.
const UNSERVED_KINDS: &str = "
    WITH RECURSIVE kinds (queue, kind, version, place) AS (
        (SELECT j.queue, j.kind, j.version, 1 FROM leasehold.jobs AS j
         WHERE j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL ORDER BY j.queue, j.kind, j.version LIMIT 1)
        UNION ALL
        SELECT following.queue, following.kind, following.version, kinds.place + 1 FROM kinds CROSS JOIN LATERAL (
            SELECT j.queue, j.kind, j.version FROM leasehold.jobs AS j
            WHERE j.state = 'ready' AND NOT j.scheduled AND j.blocked_by IS NULL
              AND (j.queue, j.kind, j.version) > (kinds.queue, kinds.kind, kinds.version)
            ORDER BY j.queue, j.kind, j.version LIMIT 1
        ) AS following
        WHERE kinds.place < 1000
    ),
    served AS MATERIALIZED (
        SELECT w.id, served.queue FROM leasehold.workers AS w
        CROSS JOIN LATERAL pg_catalog.json_array_elements_text(w.queues) AS served (queue)
        WHERE w.heartbeat_at > pg_catalog.clock_timestamp() - INTERVAL '1 minute'
    ),
    handled AS MATERIALIZED (
        SELECT s.queue, handled.kind->>0 AS kind, pg_catalog.max((handled.kind->>1)::pg_catalog.int4) AS version
        FROM served AS s JOIN leasehold.workers AS w ON w.id = s.id
        CROSS JOIN LATERAL pg_catalog.json_array_elements(w.kinds) AS handled (kind)
        GROUP BY 1, 2
    )
    SELECT k.queue, k.kind, k.version FROM kinds AS k
    WHERE k.queue = ANY (ARRAY(SELECT s.queue FROM served AS s))
      AND NOT EXISTS (SELECT FROM handled AS h WHERE h.queue = k.queue AND h.kind = k.kind AND h.version >= k.version)
    ORDER BY k.queue, k.kind, k.version
";

const LATE_SCHEDULES: &str = "
    SELECT name, pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() - next_at) * 1000)::bigint AS late_ms
    FROM leasehold.schedules
    WHERE NOT paused AND next_at <= (SELECT pg_catalog.clock_timestamp()) - $1 * INTERVAL '1 millisecond'
    ORDER BY next_at LIMIT 100
";

#[derive(QueryableByName)]
struct Table {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = BigInt)]
    dead: i64,
    #[diesel(sql_type = BigInt)]
    live: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    vacuumed_ms: Option<i64>,
    #[diesel(sql_type = Bool)]
    off: bool,
}

#[derive(QueryableByName)]
struct Open {
    #[diesel(sql_type = Integer)]
    pid: i32,
    #[diesel(sql_type = BigInt)]
    age_ms: i64,
    #[diesel(sql_type = Text)]
    name: String,
}

#[derive(QueryableByName)]
struct Session {
    #[diesel(sql_type = Integer)]
    pid: i32,
}

#[derive(QueryableByName)]
struct Sessions {
    #[diesel(sql_type = BigInt)]
    sessions: i64,
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

#[derive(QueryableByName)]
struct Milliseconds {
    #[diesel(sql_type = BigInt)]
    ms: i64,
}

impl Table {
    fn findings(self, schema: &Schema, thresholds: &Thresholds) -> Vec<Finding> {
        let table = format!("{}.{}", schema.name(), self.name);
        let mut findings = Vec::new();
        let (dead, live) = (self.dead.unsigned_abs(), self.live.unsigned_abs());
        if dead >= thresholds.dead_rows && dead.saturating_mul(4) >= live {
            findings.push(Finding::Bloat {
                table: table.clone(),
                dead,
                live,
                vacuumed: self.vacuumed_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            });
        }
        if self.off {
            findings.push(Finding::AutovacuumOff { table: Some(table) });
        }
        findings
    }
}

impl CheckStatements for PgConnection {
    fn server_findings(&mut self, schema: &Schema, thresholds: &Thresholds) -> QueryResult<Vec<Finding>> {
        let mut findings = settings_findings(self)?;
        let tables: Vec<Table> = Sql(TABLES, (bind::<Text, _>(schema.name()),)).load(self)?;
        findings.extend(tables.into_iter().flat_map(|table| table.findings(schema, thresholds)));
        let age = millis(thresholds.transaction);
        let open: Vec<Open> = Sql(OLD_TRANSACTIONS, (bind::<BigInt, _>(age),)).load(self)?;
        findings.extend(open.into_iter().map(|open| Finding::OldTransaction {
            pid: open.pid,
            age: Duration::from_millis(open.age_ms.unsigned_abs()),
            application: open.name,
        }));
        let hidden: Sessions = Sql(HIDDEN_SESSIONS, ()).get_result(self)?;
        if hidden.sessions > 0 {
            let sessions = hidden.sessions.unsigned_abs();
            findings.push(Finding::SessionsHidden { sessions });
        }
        let prepared: Vec<Open> = Sql(PREPARED, (bind::<BigInt, _>(age),)).load(self)?;
        findings.extend(prepared.into_iter().map(|prepared| Finding::PreparedTransaction {
            name: prepared.name,
            age: Duration::from_millis(prepared.age_ms.unsigned_abs()),
        }));
        let slots: Vec<Name> = Sql(IDLE_SLOTS, ()).load(self)?;
        findings.extend(
            slots
                .into_iter()
                .map(|slot| Finding::ReplicationSlot { name: slot.name }),
        );
        Ok(findings)
    }

    fn session(&mut self) -> QueryResult<Option<i32>> {
        let session: Session = Sql(SESSION, ()).get_result(self)?;
        Ok(Some(session.pid))
    }

    fn index_rows(&mut self, schema: &Schema) -> QueryResult<Vec<IndexRow>> {
        Sql(INDEXES, (bind::<Text, _>(schema.name()),)).load(self)
    }

    fn clock_ms(&mut self) -> QueryResult<i64> {
        Ok(Sql(CLOCK, ()).get_result::<Milliseconds>(self)?.ms)
    }

    fn expired_leases(&mut self, schema: &Schema, for_ms: i64) -> QueryResult<ExpiredRow> {
        Sql(schema.render(EXPIRED_LEASES), (bind::<BigInt, _>(for_ms),)).get_result(self)
    }

    fn unserved_queues(&mut self, schema: &Schema) -> QueryResult<Vec<String>> {
        let queues: Vec<Name> = Sql(schema.render(UNSERVED_QUEUES), ()).load(self)?;
        Ok(queues.into_iter().map(|queue| queue.name).collect())
    }

    fn unserved_kinds(&mut self, schema: &Schema) -> QueryResult<Vec<UnservedRow>> {
        Sql(schema.render(UNSERVED_KINDS), ()).load(self)
    }

    fn late_schedules(&mut self, schema: &Schema, by_ms: i64) -> QueryResult<Vec<LateRow>> {
        Sql(schema.render(LATE_SCHEDULES), (bind::<BigInt, _>(by_ms),)).load(self)
    }
}
