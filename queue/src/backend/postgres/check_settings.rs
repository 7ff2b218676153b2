//! What a check reads of the server's settings.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use super::connect::OLDEST;
use crate::check::Finding;
use crate::sql::Sql;

/// A limit below it ends statements that only wait for another commit, or for a slow disk.
const SHORT_MS: i64 = 1_000;

// Times in milliseconds, as the server keeps them; those of newer versions are not there on older ones.
const SETTINGS: &str = "
    SELECT pg_catalog.current_setting('server_version_num')::integer AS version,
        pg_catalog.current_setting('fsync', true) AS fsync,
        pg_catalog.current_setting('full_page_writes', true) AS full_page_writes,
        pg_catalog.current_setting('synchronous_commit', true) AS synchronous_commit,
        pg_catalog.current_setting('autovacuum', true) = 'on' AND pg_catalog.current_setting('track_counts', true) = 'on' AS vacuums,
        pg_catalog.current_setting('default_transaction_isolation', true) AS isolation,
        pg_catalog.current_setting('plan_cache_mode', true) AS plan_cache_mode
";

const TIMEOUTS: &str = "
    SELECT name, setting::bigint AS ms FROM pg_catalog.pg_settings
    WHERE name = ANY (ARRAY[
        'idle_in_transaction_session_timeout', 'lock_timeout', 'statement_timeout', 'transaction_timeout', 'idle_session_timeout'
    ])
    ORDER BY name
";

// What everybody sees: numbers alone.
const CONNECTIONS: &str = "
    SELECT 'server' AS of, (SELECT pg_catalog.sum(numbackends) FROM pg_catalog.pg_stat_database)::bigint AS used,
        pg_catalog.current_setting('max_connections')::bigint AS max
    UNION ALL
    SELECT 'database', (SELECT s.numbackends FROM pg_catalog.pg_stat_database AS s WHERE s.datid = d.oid)::bigint, d.datconnlimit::bigint
    FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database() AND d.datconnlimit > 0
    UNION ALL
    SELECT 'role', (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity AS a WHERE a.usesysid = r.oid), r.rolconnlimit::bigint
    FROM pg_catalog.pg_roles AS r WHERE r.rolname = session_user AND r.rolconnlimit > 0
";

#[derive(QueryableByName)]
struct Settings {
    #[diesel(sql_type = Integer)]
    version: i32,
    #[diesel(sql_type = Nullable<Text>)]
    fsync: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    full_page_writes: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    synchronous_commit: Option<String>,
    #[diesel(sql_type = Nullable<Bool>)]
    vacuums: Option<bool>,
    #[diesel(sql_type = Nullable<Text>)]
    isolation: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    plan_cache_mode: Option<String>,
}

#[derive(QueryableByName)]
struct Timeout {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = BigInt)]
    ms: i64,
}

#[derive(QueryableByName)]
struct Limit {
    #[diesel(sql_type = Text)]
    of: String,
    #[diesel(sql_type = Nullable<BigInt>)]
    used: Option<i64>,
    #[diesel(sql_type = BigInt)]
    max: i64,
}

impl Settings {
    fn findings(self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.version < OLDEST {
            findings.push(Finding::ServerVersion {
                version: self.version,
                needed: OLDEST,
            });
        }
        let off = |value: &String| value == "off";
        for (name, value) in [
            ("fsync", self.fsync),
            ("full_page_writes", self.full_page_writes),
            ("synchronous_commit", self.synchronous_commit),
        ] {
            findings.extend(value.filter(off).map(|value| Finding::UnsafeSetting { name, value }));
        }
        let strict = |value: &String| !value.starts_with("read ");
        let custom = |value: &String| value == "force_custom_plan";
        let settings = [
            ("default_transaction_isolation", self.isolation.filter(strict)),
            ("plan_cache_mode", self.plan_cache_mode.filter(custom)),
        ];
        for (name, value) in settings {
            findings.extend(value.map(|value| Finding::Setting { name, value }));
        }
        if self.vacuums == Some(false) {
            findings.push(Finding::AutovacuumOff { table: None });
        }
        findings
    }
}

impl Timeout {
    fn finding(self) -> Option<Finding> {
        let short = (1..SHORT_MS).contains(&self.ms);
        let (name, found) = match self.name.as_str() {
            "idle_in_transaction_session_timeout" => ("idle_in_transaction_session_timeout", self.ms == 0),
            "lock_timeout" => ("lock_timeout", short),
            "statement_timeout" => ("statement_timeout", short),
            "transaction_timeout" => ("transaction_timeout", short),
            _ => ("idle_session_timeout", self.ms > 0),
        };
        let value = match self.ms {
            0 => "0".to_owned(),
            ms => format!("{ms} ms"),
        };
        found.then_some(Finding::Setting { name, value })
    }
}

impl Limit {
    fn finding(self) -> Option<Finding> {
        let of = match self.of.as_str() {
            "server" => "server",
            "database" => "database",
            _ => "role",
        };
        let used = self.used?;
        (used.saturating_mul(10) >= self.max.saturating_mul(9)).then_some(Finding::Connections {
            of,
            used: used.unsigned_abs(),
            max: self.max.unsigned_abs(),
        })
    }
}

/// What the settings of the server, of the database and of the role do.
pub(super) fn settings_findings(conn: &mut PgConnection) -> QueryResult<Vec<Finding>> {
    let mut findings = Sql(SETTINGS, ()).get_result::<Settings>(conn)?.findings();
    let timeouts: Vec<Timeout> = Sql(TIMEOUTS, ()).load(conn)?;
    findings.extend(timeouts.into_iter().filter_map(Timeout::finding));
    let limits: Vec<Limit> = Sql(CONNECTIONS, ()).load(conn)?;
    findings.extend(limits.into_iter().filter_map(Limit::finding));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::{Finding, Settings};

    #[test]
    fn a_server_that_is_too_old_is_found() {
        let of = |version| Settings {
            version,
            fsync: None,
            full_page_writes: None,
            synchronous_commit: None,
            vacuums: None,
            isolation: None,
            plan_cache_mode: None,
        };
        assert_eq!(of(130_000).findings(), []);
        let (version, needed) = (120_022, 130_000);
        assert_eq!(of(version).findings(), [Finding::ServerVersion { version, needed }]);
    }
}
