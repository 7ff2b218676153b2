use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Bool, Integer, Nullable, Text};
use diesel::{PgConnection, QueryableByName, RunQueryDsl};

use crate::backend::{ScheduleDefinition, ScheduleRow, ScheduleStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The columns of a [`ScheduleRow`].
macro_rules! schedule_columns {
    () => {
        "name, cron, zone, missed, kind, version, payload::pg_catalog.text, queue, priority::integer, max_attempts, lease_ms,
         options::pg_catalog.text, pg_catalog.floor(extract(epoch FROM next_at) * 1000)::bigint AS next_at_ms,
         pg_catalog.floor(extract(epoch FROM last_at) * 1000)::bigint AS last_at_ms, paused, defined_by, revision,
         pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS now_ms"
    };
}

const CLOCK: &str =
    "SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS now_ms";

const SCHEDULES: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM leasehold.schedules ORDER BY name"
);

const SCHEDULE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM leasehold.schedules WHERE name = $1"
);

const ADD_SCHEDULE: &str = "
    INSERT INTO leasehold.schedules (name, cron, zone, missed, kind, version, payload, queue, priority, max_attempts, lease_ms,
        options, defined_by, next_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7::pg_catalog.json, $8, $9::smallint, $10, $11, $12::pg_catalog.json, $13,
        TIMESTAMP WITH TIME ZONE 'epoch' + $14 * INTERVAL '1 millisecond')
    ON CONFLICT (name) DO NOTHING
";

const REPLACE_SCHEDULE: &str = "
    UPDATE leasehold.schedules SET cron = $2, zone = $3, missed = $4, kind = $5, version = $6, payload = $7::pg_catalog.json,
        queue = $8, priority = $9::smallint, max_attempts = $10, lease_ms = $11, options = $12::pg_catalog.json,
        defined_by = $13, revision = revision + 1,
        next_at = coalesce(TIMESTAMP WITH TIME ZONE 'epoch' + $14 * INTERVAL '1 millisecond', next_at)
    WHERE name = $1 AND revision = $15
";

const PAUSE_SCHEDULE: &str = "
    UPDATE leasehold.schedules SET paused = $3, revision = revision + 1,
        next_at = TIMESTAMP WITH TIME ZONE 'epoch' + $4 * INTERVAL '1 millisecond'
    WHERE name = $1 AND revision = $2
";

const REMOVE_SCHEDULE: &str = "DELETE FROM leasehold.schedules WHERE name = $1";

#[derive(QueryableByName)]
struct Clock {
    #[diesel(sql_type = BigInt)]
    now_ms: i64,
}

impl ScheduleStatements for PgConnection {
    fn clock(&mut self) -> QueryResult<i64> {
        let clock: Clock = Sql(CLOCK, ()).get_result(self)?;
        Ok(clock.now_ms)
    }

    fn schedules(&mut self, schema: &Schema) -> QueryResult<Vec<ScheduleRow>> {
        Sql(schema.render(SCHEDULES), ()).load(self)
    }

    fn schedule(&mut self, schema: &Schema, name: &str) -> QueryResult<Option<ScheduleRow>> {
        Sql(schema.render(SCHEDULE), (bind::<Text, _>(name),))
            .get_result(self)
            .optional()
    }

    fn add_schedule(
        &mut self,
        schema: &Schema,
        definition: &ScheduleDefinition,
        defined_by: &str,
        next_at_ms: i64,
    ) -> QueryResult<usize> {
        let binds = (
            bind::<Text, _>(&definition.name),
            bind::<Text, _>(&definition.cron),
            bind::<Text, _>(&definition.zone),
            bind::<Text, _>(&definition.missed),
            bind::<Text, _>(&definition.kind),
            bind::<Integer, _>(definition.version),
            bind::<Text, _>(&definition.payload),
            bind::<Text, _>(&definition.queue),
            bind::<Integer, _>(definition.priority),
            bind::<Integer, _>(definition.max_attempts),
            bind::<BigInt, _>(definition.lease_ms),
            bind::<Text, _>(&definition.options),
            bind::<Text, _>(defined_by),
            bind::<BigInt, _>(next_at_ms),
        );
        Sql(schema.render(ADD_SCHEDULE), binds).execute(self)
    }

    fn replace_schedule(
        &mut self,
        schema: &Schema,
        definition: &ScheduleDefinition,
        defined_by: &str,
        revision: i64,
        next_at_ms: Option<i64>,
    ) -> QueryResult<usize> {
        let binds = (
            bind::<Text, _>(&definition.name),
            bind::<Text, _>(&definition.cron),
            bind::<Text, _>(&definition.zone),
            bind::<Text, _>(&definition.missed),
            bind::<Text, _>(&definition.kind),
            bind::<Integer, _>(definition.version),
            bind::<Text, _>(&definition.payload),
            bind::<Text, _>(&definition.queue),
            bind::<Integer, _>(definition.priority),
            bind::<Integer, _>(definition.max_attempts),
            bind::<BigInt, _>(definition.lease_ms),
            bind::<Text, _>(&definition.options),
            bind::<Text, _>(defined_by),
            bind::<Nullable<BigInt>, _>(next_at_ms),
            bind::<BigInt, _>(revision),
        );
        Sql(schema.render(REPLACE_SCHEDULE), binds).execute(self)
    }

    fn pause_schedule(
        &mut self,
        schema: &Schema,
        name: &str,
        revision: i64,
        paused: bool,
        next_at_ms: i64,
    ) -> QueryResult<usize> {
        let binds = (
            bind::<Text, _>(name),
            bind::<BigInt, _>(revision),
            bind::<Bool, _>(paused),
            bind::<BigInt, _>(next_at_ms),
        );
        Sql(schema.render(PAUSE_SCHEDULE), binds).execute(self)
    }

    fn remove_schedule(&mut self, schema: &Schema, name: &str) -> QueryResult<usize> {
        Sql(schema.render(REMOVE_SCHEDULE), (bind::<Text, _>(name),)).execute(self)
    }
}
