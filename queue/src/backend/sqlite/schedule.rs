//! Schedules, as they are kept.

use diesel::result::{OptionalExtension, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::{json, now_ms, write};
use crate::backend::{ScheduleDefinition, ScheduleRow, ScheduleStatements};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

/// The columns of a [`ScheduleRow`]; the clock is bound as the first value.
macro_rules! schedule_columns {
    () => {
        "name, cron, zone, missed, kind, version, payload, queue, priority, max_attempts, lease_ms, options,
         next_at AS next_at_ms, last_at AS last_at_ms, paused, defined_by, revision, $1 AS now_ms"
    };
}

const SCHEDULES: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM leasehold_schedules ORDER BY name"
);

const SCHEDULE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM leasehold_schedules WHERE name = $2"
);

/// `WHERE true`, or the parser would take `ON CONFLICT` for a join's condition.
const ADD_SCHEDULE: &str = "
    INSERT INTO leasehold_schedules (name, cron, zone, missed, kind, version, payload, queue, priority, max_attempts, lease_ms,
        options, defined_by, next_at)
    SELECT v->>0, v->>1, v->>2, v->>3, v->>4, v->>5, v->>6, v->>7, v->>8, v->>9, v->>10, v->>11, v->>12, v->>13
    FROM (SELECT $1 AS v) WHERE true
    ON CONFLICT (name) DO NOTHING
";

const REPLACE_SCHEDULE: &str = "
    UPDATE leasehold_schedules SET cron = v->>1, zone = v->>2, missed = v->>3, kind = v->>4, version = v->>5,
        payload = v->>6, queue = v->>7, priority = v->>8, max_attempts = v->>9, lease_ms = v->>10, options = v->>11,
        defined_by = v->>12, revision = revision + 1, next_at = coalesce(v->>13, next_at)
    FROM (SELECT $1 AS v)
    WHERE name = v->>0 AND revision = $2
";

const PAUSE_SCHEDULE: &str = "
    UPDATE leasehold_schedules SET paused = $3, revision = revision + 1, next_at = $4 WHERE name = $1 AND revision = $2
";

const REMOVE_SCHEDULE: &str = "DELETE FROM leasehold_schedules WHERE name = $1";

/// A definition as the elements that [`ADD_SCHEDULE`] and [`REPLACE_SCHEDULE`] read.
fn elements(definition: &ScheduleDefinition, defined_by: &str, next_at_ms: Option<i64>) -> QueryResult<String> {
    json(&(
        &definition.name,
        &definition.cron,
        &definition.zone,
        &definition.missed,
        &definition.kind,
        definition.version,
        &definition.payload,
        &definition.queue,
        definition.priority,
        definition.max_attempts,
        definition.lease_ms,
        &definition.options,
        defined_by,
        next_at_ms,
    ))
}

impl ScheduleStatements for SqliteConnection {
    fn clock(&mut self) -> QueryResult<i64> {
        Ok(now_ms())
    }

    fn schedules(&mut self, schema: &Schema) -> QueryResult<Vec<ScheduleRow>> {
        Sql(schema.render(SCHEDULES), (bind::<BigInt, _>(now_ms()),)).load(self)
    }

    fn schedule(&mut self, schema: &Schema, name: &str) -> QueryResult<Option<ScheduleRow>> {
        let binds = (bind::<BigInt, _>(now_ms()), bind::<Text, _>(name));
        Sql(schema.render(SCHEDULE), binds).get_result(self).optional()
    }

    fn add_schedule(
        &mut self,
        schema: &Schema,
        definition: &ScheduleDefinition,
        defined_by: &str,
        next_at_ms: i64,
    ) -> QueryResult<usize> {
        let elements = elements(definition, defined_by, Some(next_at_ms))?;
        write(self, |conn, _| {
            Sql(schema.render(ADD_SCHEDULE), (bind::<Text, _>(elements),)).execute(conn)
        })
    }

    fn replace_schedule(
        &mut self,
        schema: &Schema,
        definition: &ScheduleDefinition,
        defined_by: &str,
        revision: i64,
        next_at_ms: Option<i64>,
    ) -> QueryResult<usize> {
        let elements = elements(definition, defined_by, next_at_ms)?;
        write(self, |conn, _| {
            let binds = (bind::<Text, _>(elements), bind::<BigInt, _>(revision));
            Sql(schema.render(REPLACE_SCHEDULE), binds).execute(conn)
        })
    }

    fn pause_schedule(
        &mut self,
        schema: &Schema,
        name: &str,
        revision: i64,
        paused: bool,
        next_at_ms: i64,
    ) -> QueryResult<usize> {
        write(self, |conn, _| {
            let binds = (
                bind::<Text, _>(name),
                bind::<BigInt, _>(revision),
                bind::<BigInt, _>(i64::from(paused)),
                bind::<BigInt, _>(next_at_ms),
            );
            Sql(schema.render(PAUSE_SCHEDULE), binds).execute(conn)
        })
    }

    fn remove_schedule(&mut self, schema: &Schema, name: &str) -> QueryResult<usize> {
        write(self, |conn, _| {
            Sql(schema.render(REMOVE_SCHEDULE), (bind::<Text, _>(name),)).execute(conn)
        })
    }
}
