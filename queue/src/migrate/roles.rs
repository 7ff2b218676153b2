//! Roles of the database with no more rights than their programs use, on PostgreSQL.

use crate::backend::ConnectionSettings;
use crate::schema::Schema;

/// Group roles, by what their members do; logins are granted one or more of them.
const ROLES: &str = r#"-- Run it as the role that migrates, in one transaction, after each migration. Again does no harm.
DO $$ DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['{producer}', '{worker}', '{reader}'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- Somebody else did, for another database of the server.
            END;
        END IF;
    END LOOP;
END $$;

-- From nothing. The functions are everybody's by default.
REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, {producer}, {worker}, {reader};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM PUBLIC, {producer}, {worker}, {reader};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC, {producer}, {worker}, {reader};
GRANT USAGE ON SCHEMA {schema} TO {producer}, {worker}, {reader};
GRANT SELECT ON {schema}.migrations, {schema}.compatibility TO {producer}, {worker}, {reader};

-- Enqueues, emits, accepts. It may move or replace a ready job, which a conflict of unique keys asks for, but has no right to
-- the columns of a lease, so it can neither claim nor complete.
GRANT SELECT,
    INSERT (id, queue, kind, version, payload, priority, run_at, scheduled, max_attempts, lease_ms, idempotency_key, unique_key,
        unique_states, expires_at, limit_key, limit_rank, batch_id, awaited, blocked_by),
    UPDATE (generation, payload, version, limit_key, run_at, scheduled, blocked_by)
    ON {schema}.jobs TO {producer};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.unique_keys TO {producer};
GRANT SELECT ON {schema}.finished_jobs, {schema}.job_errors, {schema}.job_results, {schema}.job_progress TO {producer};
GRANT SELECT, INSERT ON {schema}.job_waits TO {producer};
-- Whoever adds to a batch shares its row, and a lock asks for the right to change some column.
GRANT SELECT, INSERT (name, done_job, discarded_job), UPDATE (name) ON {schema}.batches TO {producer};
GRANT INSERT (event_id, topic, key, payload, max_attempts), SELECT (id) ON {schema}.outbox_events TO {producer};
GRANT INSERT (consumer, event_id), SELECT (consumer, event_id) ON {schema}.inbox_events TO {producer};

-- Every row, and nothing of the tables themselves.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {worker};
REVOKE INSERT, UPDATE, DELETE ON {schema}.migrations, {schema}.compatibility FROM {worker};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {producer}, {worker};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {producer}, {worker};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {worker};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE ON SEQUENCES TO {worker};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT EXECUTE ON FUNCTIONS TO {worker};
"#;

/// Column by column, so that a column of a later migration is there after the next run. `xmax` tells who locks a row.
const READ_WITHOUT_CONTENTS: &str = r#"
-- Looks, but at nothing that an application has written: no payload, no result.
DO $$ DECLARE
    columns record;
BEGIN
    FOR columns IN
        SELECT c.relname AS of_table, pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ') AS names
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.relnamespace = '{schema}'::pg_catalog.regnamespace AND c.relkind IN ('r', 'p') AND NOT a.attisdropped
          AND (a.attnum > 0 OR a.attname = 'xmax') AND a.attname NOT IN ('payload', 'result')
        GROUP BY c.relname
    LOOP
        EXECUTE pg_catalog.format('GRANT SELECT (%s) ON {schema}.%I TO {reader}', columns.names, columns.of_table);
    END LOOP;
END $$;
"#;

const READ_ALL: &str = "
-- Looks at everything, payloads and results among it.
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader};
";

/// What a connection of ours sets for itself, where it may: settings of a group do not reach its members.
const POOLED: &str = "
-- Behind a pooler in transaction mode, where a program may set nothing for its session.
ALTER ROLE {login} SET plan_cache_mode = 'force_generic_plan';
ALTER ROLE {login} SET default_transaction_isolation = 'read committed';
ALTER ROLE {login} SET lock_timeout = '5s';
ALTER ROLE {login} SET idle_in_transaction_session_timeout = '{idle}ms';
";

/// The names of the roles that [`Migrations::roles_sql`](crate::migrate::Migrations::roles_sql) makes, and what they get.
///
/// ```
/// use leasehold::migrate::{Migrations, RoleNames};
///
/// let roles = RoleNames::new().pooled_login("billing")?;
/// let sql = Migrations::new().roles_sql(&roles);
/// assert!(sql.contains("leasehold_producer") && sql.contains("ALTER ROLE billing SET"));
/// # Ok::<(), leasehold::migrate::RoleNameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleNames {
    prefix: String,
    reads_contents: bool,
    pooled: Vec<String>,
}

/// A name that cannot be a role's here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a role: use 1 to 48 characters from a-z, 0-9 and _, beginning with a letter, but not with pg_"
)]
pub struct RoleNameError(String);

impl Default for RoleNames {
    fn default() -> Self {
        Self {
            prefix: "leasehold".to_owned(),
            reads_contents: false,
            pooled: Vec::new(),
        }
    }
}

impl RoleNames {
    /// The roles `leasehold_producer`, `leasehold_worker` and `leasehold_reader`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another word than `leasehold` before `_producer`, `_worker` and `_reader`. Roles are the whole server's: two schemas or
    /// databases whose roles are not to be the same need a word each.
    ///
    /// # Errors
    ///
    /// [`RoleNameError`] unless it is 1 to 48 characters from `a-z`, `0-9` and `_`, beginning with a letter, but not with `pg_`.
    pub fn prefix(mut self, prefix: &str) -> Result<Self, RoleNameError> {
        self.prefix = valid(prefix)?;
        Ok(self)
    }

    /// Lets the reader see payloads and results, too. `inspect::job` and `inspect::list` read payloads, `inspect::result` and
    /// `inspect::steps` results; all else in `inspect`, `batch::list` and `check` do without.
    #[must_use]
    pub fn reader_sees_payloads(mut self) -> Self {
        self.reads_contents = true;
        self
    }

    /// A login, which is there already, of workers behind a pooler in transaction mode: it gets the settings that a worker
    /// otherwise makes for each of its connections. Handlers run under them, too.
    ///
    /// # Errors
    ///
    /// As [`RoleNames::prefix`].
    pub fn pooled_login(mut self, login: &str) -> Result<Self, RoleNameError> {
        self.pooled.push(valid(login)?);
        Ok(self)
    }

    pub(super) fn sql(&self, schema: &Schema) -> String {
        let read = if self.reads_contents {
            READ_ALL
        } else {
            READ_WITHOUT_CONTENTS
        };
        let mut sql = format!("{ROLES}{read}")
            .replace("{schema}", schema.name())
            .replace("{producer}", &format!("{}_producer", self.prefix))
            .replace("{worker}", &format!("{}_worker", self.prefix))
            .replace("{reader}", &format!("{}_reader", self.prefix));
        let idle = ConnectionSettings::default()
            .idle_in_transaction
            .as_millis()
            .to_string();
        for login in &self.pooled {
            sql.push_str(&POOLED.replace("{login}", login).replace("{idle}", &idle));
        }
        sql
    }
}

/// Names are put into SQL unquoted, so a key word is refused by the server.
fn valid(name: &str) -> Result<String, RoleNameError> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let valid = (1..=48).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(letters)
        && !name.starts_with("pg_")
        && name != "public";
    valid
        .then(|| name.to_owned())
        .ok_or_else(|| RoleNameError(name.to_owned()))
}
