use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Nullable, Text};
use diesel::{PgConnection, RunQueryDsl};

use crate::backend::{Advance, Ahead, Fire, FireStatements, ScheduleRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const FIRES_AHEAD: &str = "
    WITH clock AS MATERIALIZED (SELECT pg_catalog.clock_timestamp() AS at)
    SELECT EXISTS (
            SELECT 1 FROM leasehold.schedules WHERE NOT paused AND next_at <= (SELECT at FROM clock)
        ) AS is_due,
        (SELECT pg_catalog.ceil(extract(epoch FROM next_at - (SELECT at FROM clock)) * 1000)::bigint
            FROM leasehold.schedules WHERE NOT paused AND next_at > (SELECT at FROM clock) ORDER BY next_at LIMIT 1) AS next_ms
";

// One that is locked is being fired by another process, or changed: the next look finds it again.
const DUE_SCHEDULES: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM leasehold.schedules
    WHERE NOT paused AND next_at <= (SELECT pg_catalog.clock_timestamp()) AND name > $1
    ORDER BY name LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED"
);

const FIRED: &str = "
    SELECT given.schedule, given.at_ms AS fire_at_ms
    FROM unnest($1, $2) AS given (schedule, at_ms)
    CROSS JOIN LATERAL (
        SELECT 1 FROM leasehold.fires AS f WHERE f.schedule = given.schedule
            AND f.fire_at = TIMESTAMP WITH TIME ZONE 'epoch' + given.at_ms * INTERVAL '1 millisecond' LIMIT 1
    ) AS found
";

const ADD_FIRES: &str = "
    INSERT INTO leasehold.fires (schedule, fire_at, job_id)
    SELECT schedule, TIMESTAMP WITH TIME ZONE 'epoch' + at_ms * INTERVAL '1 millisecond', job_id
    FROM unnest($1, $2, $3) AS given (schedule, at_ms, job_id)
";

// Fenced on what was read: neither fired by somebody else since, nor changed.
const ADVANCE: &str = "
    UPDATE leasehold.schedules AS s
    SET next_at = TIMESTAMP WITH TIME ZONE 'epoch' + given.next_ms * INTERVAL '1 millisecond',
        last_at = coalesce(TIMESTAMP WITH TIME ZONE 'epoch' + given.last_ms * INTERVAL '1 millisecond', s.last_at)
    FROM unnest($1, $2, $3, $4, $5) AS given (name, revision, was_ms, next_ms, last_ms)
    WHERE s.name = ANY ($1) AND s.name = given.name AND s.revision = given.revision
      AND pg_catalog.floor(extract(epoch FROM s.next_at) * 1000)::bigint = given.was_ms
";

const SWEEP_FIRES: &str = "
    DELETE FROM leasehold.fires WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM leasehold.fires
        WHERE fired_at <= (SELECT pg_catalog.clock_timestamp() - $1 * INTERVAL '1 millisecond')
        ORDER BY fired_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
    ))
";

impl FireStatements for PgConnection {
    fn fires_ahead(&mut self, schema: &Schema) -> QueryResult<Ahead> {
        Sql(schema.render(FIRES_AHEAD), ()).get_result(self)
    }

    fn due_schedules(&mut self, schema: &Schema, after: &str, limit: i64) -> QueryResult<Vec<ScheduleRow>> {
        let binds = (bind::<Text, _>(after), bind::<BigInt, _>(limit));
        Sql(schema.render(DUE_SCHEDULES), binds).load(self)
    }

    fn fired(&mut self, schema: &Schema, fires: &[Fire]) -> QueryResult<Vec<Fire>> {
        let binds = (
            bind::<Array<Text>, _>(fires.iter().map(|fire| fire.schedule.as_str()).collect::<Vec<_>>()),
            bind::<Array<BigInt>, _>(fires.iter().map(|fire| fire.fire_at_ms).collect::<Vec<_>>()),
        );
        Sql(schema.render(FIRED), binds).load(self)
    }

    fn add_fires(&mut self, schema: &Schema, fires: &[(Fire, i64)]) -> QueryResult<usize> {
        let binds = (
            bind::<Array<Text>, _>(fires.iter().map(|(fire, _)| fire.schedule.as_str()).collect::<Vec<_>>()),
            bind::<Array<BigInt>, _>(fires.iter().map(|(fire, _)| fire.fire_at_ms).collect::<Vec<_>>()),
            bind::<Array<BigInt>, _>(fires.iter().map(|(_, job_id)| *job_id).collect::<Vec<_>>()),
        );
        Sql(schema.render(ADD_FIRES), binds).execute(self)
    }

    fn advance(&mut self, schema: &Schema, steps: &[Advance]) -> QueryResult<usize> {
        let binds = (
            bind::<Array<Text>, _>(steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>()),
            bind::<Array<BigInt>, _>(steps.iter().map(|step| step.revision).collect::<Vec<_>>()),
            bind::<Array<BigInt>, _>(steps.iter().map(|step| step.was_at_ms).collect::<Vec<_>>()),
            bind::<Array<BigInt>, _>(steps.iter().map(|step| step.next_at_ms).collect::<Vec<_>>()),
            bind::<Array<Nullable<BigInt>>, _>(steps.iter().map(|step| step.last_at_ms).collect::<Vec<_>>()),
        );
        Sql(schema.render(ADVANCE), binds).execute(self)
    }

    fn sweep_fires(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize> {
        let binds = (bind::<BigInt, _>(older_than_ms), bind::<BigInt, _>(limit));
        Sql(schema.render(SWEEP_FIRES), binds).execute(self)
    }
}
