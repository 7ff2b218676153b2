use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::backend::{Chosen, ClaimedRow, SelectedAs, SelectedRequest, SelectedRow, SelectedStatements, Unclaimed};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// What keeps a ready row `j` from being claimed; `free` if nothing does. One text for the claim and for its answers, so
/// that what is not claimed and is called free was somebody else's at that moment.
macro_rules! hindrance {
    () => {
        "CASE
            WHEN NOT EXISTS (SELECT 1 FROM unnest($2, $3) AS runs (kind, version)
                WHERE runs.kind = j.kind AND j.version <= runs.version) THEN 'not served'
            WHEN j.generation >= 9223372036854775805 OR j.attempt >= 2147483647 THEN 'not served'
            WHEN j.expires_at <= (SELECT at FROM clock) THEN 'expired'
            WHEN EXISTS (SELECT 1 FROM leasehold.pauses WHERE scope = 'all')
                OR j.queue = ANY (ARRAY(SELECT name FROM leasehold.pauses WHERE scope = 'queue'))
                OR j.kind = ANY (ARRAY(SELECT name FROM leasehold.pauses WHERE scope = 'kind')) THEN 'paused'
            WHEN j.blocked_by IS NOT NULL THEN j.blocked_by
            WHEN j.scheduled AND j.run_at > (SELECT at FROM clock) THEN 'not due'
            WHEN j.scheduled AND j.limit_key IS NOT NULL THEN 'limit'
            ELSE 'free' END"
    };
}

// Locked as a claim locks, with SKIP LOCKED and not NOWAIT: NOWAIT would fail the whole statement for one locked row, and
// tell nothing of the others. No lock is waited for, so the order of the list does not matter, and two lists in opposite
// order cannot wait for each other. `OFFSET 0` keeps the look-ups look-ups. What was claimed by this very statement still
// shows as ready in its snapshot, so `claimed` is asked first. Durable as every claim is.
macro_rules! claim_selected {
    (asked: $asked:literal) => {
        concat!(
            "
    WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at),
    asked AS MATERIALIZED (",
            $asked,
            "),
    picked AS MATERIALIZED (
        SELECT mine.id FROM asked CROSS JOIN LATERAL (
            SELECT j.id FROM leasehold.jobs AS j
            WHERE j.id = asked.id AND j.state = 'ready' AND ",
            hindrance!(),
            " = 'free'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS mine
    ),
    claimed AS (
        UPDATE leasehold.jobs AS j SET
            state = 'running', generation = j.generation + 1, lease_token = $4, attempt = j.attempt + 1, worker = $5,
            begun = true, scheduled = false,
            lease_until = pg_catalog.clock_timestamp() + j.lease_ms * INTERVAL '1 millisecond'
        WHERE j.id = ANY (ARRAY(SELECT id FROM picked)) AND j.state = 'ready'
        RETURNING j.id, j.queue, j.kind, j.version, j.payload::pg_catalog.text AS payload, j.attempt, j.max_attempts,
            j.generation, j.lease_ms, j.idempotency_key, j.limit_key, j.batch_id, j.awaited, j.priority, ",
            micros!("j.run_at"),
            " AS run_at,
            pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - j.run_at) * 1000)::bigint AS waited_ms,
            pg_catalog.ceil(pg_catalog.date_part('epoch', j.expires_at - pg_catalog.clock_timestamp()) * 1000)::bigint AS expires_in_ms,
            ", durable!(), "
    ),
    ",
            counted!(from: "claimed", kinds: "$6", periods: "$7"),
            "
    SELECT coalesce(c.id, j.id, f.id) AS job_id,
        CASE WHEN c.id IS NOT NULL THEN 'claimed' WHEN f.id IS NOT NULL THEN f.state WHEN j.id IS NULL THEN 'missing'
            WHEN j.state = 'running' THEN 'running' ELSE j.hindrance END AS found,
        j.worker::pg_catalog.text AS worker,
        pg_catalog.floor(extract(epoch FROM coalesce(f.finished_at, j.lease_until, j.run_at)) * 1000)::bigint AS at_ms,
        coalesce(c.id, 0) AS id, coalesce(c.queue, '') AS queue, coalesce(c.kind, j.kind, '') AS kind,
        coalesce(c.version, j.version, 0) AS version, coalesce(c.payload, '') AS payload, coalesce(c.attempt, 0) AS attempt,
        coalesce(c.max_attempts, 0) AS max_attempts, coalesce(c.generation, j.generation, 0) AS generation,
        coalesce(c.lease_ms, 0) AS lease_ms, coalesce(c.idempotency_key, '') AS idempotency_key,
        coalesce(c.limit_key, j.limit_key) AS limit_key, c.batch_id, coalesce(c.awaited, false) AS awaited,
        coalesce(c.priority, 0)::pg_catalog.int2 AS priority, coalesce(c.run_at, 0) AS run_at,
        coalesce(c.waited_ms, 0) AS waited_ms, c.expires_in_ms
    FROM asked LEFT JOIN claimed AS c ON c.id = asked.id
    LEFT JOIN LATERAL (
        SELECT j.id, j.kind, j.version, j.state, j.generation, j.worker, j.lease_until, j.run_at, j.limit_key, ",
            hindrance!(),
            " AS hindrance
        FROM leasehold.jobs AS j WHERE j.id = asked.id OFFSET 0
    ) AS j ON true
    LEFT JOIN LATERAL (
        SELECT f.id, f.state, f.finished_at FROM leasehold.finished_jobs AS f WHERE f.id = asked.id OFFSET 0
    ) AS f ON true
    ORDER BY asked.place
"
        )
    };
}

const CLAIM_IDS: &str =
    claim_selected!(asked: "SELECT given.place, given.id FROM unnest($1) WITH ORDINALITY AS given (id, place)");

// A key whose time has passed names nobody, whether or not it has been removed.
const CLAIM_KEYS: &str = claim_selected!(asked: "
        SELECT given.place, (
            SELECT k.job_id FROM leasehold.unique_keys AS k
            WHERE k.key = given.key AND (k.expires_at IS NULL OR k.expires_at > pg_catalog.clock_timestamp())
        ) AS id
        FROM unnest($1) WITH ORDINALITY AS given (key, place)
    ");

/// An answer, with the columns of a claimed row whether or not it was claimed.
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
    #[diesel(embed)]
    row: ClaimedRow,
}

impl From<AnswerRow> for SelectedRow {
    fn from(answer: AnswerRow) -> Self {
        let row = answer.row;
        let found = if answer.found == "claimed" {
            SelectedAs::Claimed(Box::new(row))
        } else {
            SelectedAs::from(Unclaimed {
                found: answer.found,
                at_ms: answer.at_ms.unwrap_or_default(),
                worker: answer.worker.unwrap_or_default(),
                generation: row.generation,
                kind: row.kind,
                version: row.version,
                limit_key: row.limit_key.unwrap_or_default(),
            })
        };
        Self {
            id: answer.job_id,
            found,
        }
    }
}

impl SelectedStatements for PgConnection {
    fn claim_selected(&mut self, schema: &Schema, request: &SelectedRequest<'_>) -> QueryResult<Vec<SelectedRow>> {
        let kinds: Vec<&str> = request.runs.iter().map(|runs| runs.kind.as_str()).collect();
        let versions: Vec<i32> = request.runs.iter().map(|runs| runs.version).collect();
        let counted: Vec<&str> = request.counted.iter().map(|counted| counted.kind.as_str()).collect();
        let periods: Vec<i64> = request.counted.iter().map(|counted| counted.per_ms).collect();
        let (kinds, versions) = (bind::<Array<Text>, _>(kinds), bind::<Array<Integer>, _>(versions));
        let token = bind::<SqlUuid, _>(request.lease_token);
        let worker = bind::<SqlUuid, _>(request.worker);
        let (counted, periods) = (bind::<Array<Text>, _>(counted), bind::<Array<BigInt>, _>(periods));
        let answers: Vec<AnswerRow> = match request.chosen {
            Chosen::Ids(ids) => {
                let ids = bind::<Array<BigInt>, _>(ids);
                let binds = (ids, kinds, versions, token, worker, counted, periods);
                Sql(schema.render(CLAIM_IDS), binds).load(self)?
            }
            Chosen::Keys(keys) => {
                let keys = bind::<Array<Text>, _>(keys);
                let binds = (keys, kinds, versions, token, worker, counted, periods);
                Sql(schema.render(CLAIM_KEYS), binds).load(self)?
            }
        };
        Ok(answers.into_iter().map(SelectedRow::from).collect())
    }
}
