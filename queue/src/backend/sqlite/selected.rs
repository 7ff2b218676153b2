//! The claim of chosen rows.

use std::collections::HashMap;

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl, SqliteConnection};

use super::admit::count_begun;
use super::{json, write};
use crate::backend::{Chosen, ClaimedRow, SelectedAs, SelectedRequest, SelectedRow, SelectedStatements, Unclaimed};
use crate::lease::Fence;
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// What keeps a ready row `j` from being claimed; `free` if nothing does.
macro_rules! hindrance {
    () => {
        "CASE
            WHEN NOT EXISTS (SELECT 1 FROM json_each($2) AS runs
                WHERE runs.value->>0 = j.kind AND j.version <= runs.value->>1) THEN 'not served'
            WHEN j.generation >= 9223372036854775805 OR j.attempt >= 2147483647 THEN 'not served'
            WHEN j.expires_at <= $3 THEN 'expired'
            WHEN EXISTS (SELECT 1 FROM leasehold_pauses WHERE scope = 'all' OR scope = 'queue' AND name = j.queue
                OR scope = 'kind' AND name = j.kind) THEN 'paused'
            WHEN j.blocked_by IS NOT NULL THEN j.blocked_by
            WHEN j.scheduled AND j.run_at > $3 THEN 'not due'
            WHEN j.scheduled AND j.limit_key IS NOT NULL THEN 'limit'
            ELSE 'free' END"
    };
}

/// A key whose time has passed names nobody, whether or not it has been removed.
const JOBS_OF_KEYS: &str = "
    SELECT (SELECT k.job_id FROM leasehold_unique_keys AS k
        WHERE k.key = asked.value AND (k.expires_at IS NULL OR k.expires_at > $2)) AS id
    FROM json_each($1) AS asked ORDER BY asked.key
";

const CLAIM_IDS: &str = concat!(
    "
    UPDATE leasehold_jobs AS j SET
        state = 'running', generation = generation + 1, lease_token = $4, attempt = attempt + 1, worker = $5, begun = 1,
        scheduled = 0, lease_until = $3 + lease_ms
    WHERE id IN (SELECT value FROM json_each($1)) AND state = 'ready' AND ",
    hindrance!(),
    " = 'free'
    RETURNING id, queue, kind, version, payload, attempt, max_attempts, generation, lease_ms, idempotency_key,
        limit_key, batch_id, awaited, priority, run_at, $3 - run_at AS waited_ms, expires_at - $3 AS expires_in_ms
"
);

/// Under the claim's write lock, so nothing that is free is left.
const ANSWERS: &str = concat!(
    "
    SELECT coalesce(j.id, f.id) AS job_id,
        CASE WHEN f.id IS NOT NULL THEN f.state WHEN j.id IS NULL THEN 'missing'
            WHEN j.state = 'running' THEN 'running' ELSE ",
    hindrance!(),
    " END AS found,
        j.worker, coalesce(f.finished_at, j.lease_until, j.run_at) AS at_ms,
        j.kind, j.version, j.generation, j.limit_key
    FROM json_each($1) AS asked
    LEFT JOIN leasehold_jobs AS j ON j.id = asked.value
    LEFT JOIN leasehold_finished_jobs AS f ON f.id = asked.value
    ORDER BY asked.key
"
);

#[derive(QueryableByName)]
struct JobOfKey {
    #[diesel(sql_type = Nullable<BigInt>)]
    id: Option<i64>,
}

#[derive(QueryableByName)]
struct AnswerRow {
    #[diesel(sql_type = Nullable<BigInt>)]
    job_id: Option<i64>,
    #[diesel(sql_type = Text)]
    found: String,
    #[diesel(sql_type = Nullable<Text>)]
    worker: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    at_ms: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    kind: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    version: Option<i32>,
    #[diesel(sql_type = Nullable<BigInt>)]
    generation: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    limit_key: Option<String>,
}

impl AnswerRow {
    fn into_selected(self, claimed: &mut HashMap<i64, ClaimedRow>) -> SelectedRow {
        let claimed = self.job_id.and_then(|id| claimed.remove(&id));
        let found = match claimed {
            Some(row) => SelectedAs::Claimed(Box::new(row)),
            None => SelectedAs::from(Unclaimed {
                found: self.found,
                at_ms: self.at_ms.unwrap_or_default(),
                worker: self.worker.unwrap_or_default(),
                generation: self.generation.unwrap_or_default(),
                kind: self.kind.unwrap_or_default(),
                version: self.version.unwrap_or_default(),
                limit_key: self.limit_key.unwrap_or_default(),
            }),
        };
        SelectedRow { id: self.job_id, found }
    }
}

impl SelectedStatements for SqliteConnection {
    fn claim_selected(&mut self, schema: &Schema, request: &SelectedRequest<'_>) -> QueryResult<Vec<SelectedRow>> {
        let runs: Vec<_> = request.runs.iter().map(|runs| (&runs.kind, runs.version)).collect();
        let runs = json(&runs)?;
        let chosen = match request.chosen {
            Chosen::Ids(ids) => json(ids)?,
            Chosen::Keys(keys) => json(keys)?,
        };
        write(self, |conn, now| {
            let asked = match request.chosen {
                Chosen::Ids(_) => chosen,
                Chosen::Keys(_) => jobs_of_keys(conn, schema, &chosen, now)?,
            };
            let binds = (
                bind::<Text, _>(asked.as_str()),
                bind::<Text, _>(runs.as_str()),
                bind::<BigInt, _>(now),
                bind::<Text, _>(request.lease_token.to_string()),
                bind::<Text, _>(request.worker.to_string()),
            );
            let rows: Vec<ClaimedRow> = Sql(schema.render(CLAIM_IDS), binds).load(conn)?;
            if !request.counted.is_empty() && rows.iter().any(|row| row.limit_key.is_some()) {
                let fence = |row: &ClaimedRow| Fence {
                    id: row.id,
                    generation: row.generation,
                    lease_token: request.lease_token,
                };
                let fences: Vec<Fence> = rows.iter().map(fence).collect();
                count_begun(conn, schema, &fences, request.counted, now)?;
            }
            let mut claimed = rows.into_iter().map(|row| (row.id, row)).collect();
            let binds = (
                bind::<Text, _>(asked.as_str()),
                bind::<Text, _>(runs.as_str()),
                bind::<BigInt, _>(now),
            );
            let answers: Vec<AnswerRow> = Sql(schema.render(ANSWERS), binds).load(conn)?;
            let selected = answers.into_iter().map(|answer| answer.into_selected(&mut claimed));
            Ok(selected.collect())
        })
    }
}

/// The jobs that have these keys, as a list of ids with `null` for a key that nobody has.
fn jobs_of_keys(conn: &mut SqliteConnection, schema: &Schema, keys: &str, now: i64) -> QueryResult<String> {
    let binds = (bind::<Text, _>(keys), bind::<BigInt, _>(now));
    let jobs: Vec<JobOfKey> = Sql(schema.render(JOBS_OF_KEYS), binds).load(conn)?;
    json(&jobs.iter().map(|job| job.id).collect::<Vec<_>>())
}
