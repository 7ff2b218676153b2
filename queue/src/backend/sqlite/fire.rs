//! Schedules fire.

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Text};
use diesel::{RunQueryDsl, SqliteConnection};

use super::{json, now_ms, write};
use crate::backend::{Advance, Ahead, Fire, FireStatements, ScheduleRow};
use crate::schema::Schema;
use crate::sql::{Sql, bind};

const FIRES_AHEAD: &str = "
    SELECT EXISTS (SELECT 1 FROM leasehold_schedules WHERE paused = 0 AND next_at <= $1) AS is_due,
        (SELECT min(next_at) - $1 FROM leasehold_schedules WHERE paused = 0 AND next_at > $1) AS next_ms
";

const DUE_SCHEDULES: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM leasehold_schedules WHERE paused = 0 AND next_at <= $1 AND name > $2 ORDER BY name LIMIT $3 + 0"
);

const FIRED: &str = "
    SELECT f.schedule, f.fire_at AS fire_at_ms
    FROM json_each($1) AS given CROSS JOIN leasehold_fires AS f
    WHERE f.schedule = given.value->>0 AND f.fire_at = given.value->>1
";

const ADD_FIRES: &str = "
    INSERT INTO leasehold_fires (schedule, fire_at, job_id, fired_at)
    SELECT value->>0, value->>1, value->>2, $2 FROM json_each($1)
";

/// Fenced on what was read, as on the other backend.
const ADVANCE: &str = "
    UPDATE leasehold_schedules AS s SET next_at = given.value->>3, last_at = coalesce(given.value->>4, s.last_at)
    FROM json_each($1) AS given
    WHERE s.name = given.value->>0 AND s.revision = given.value->>1 AND s.next_at = given.value->>2
";

const SWEEP_FIRES: &str = "
    DELETE FROM leasehold_fires WHERE (schedule, fire_at) IN (
        SELECT schedule, fire_at FROM leasehold_fires WHERE fired_at <= $1 ORDER BY fired_at LIMIT $2 + 0
    )
";

impl FireStatements for SqliteConnection {
    fn fires_ahead(&mut self, schema: &Schema) -> QueryResult<Ahead> {
        Sql(schema.render(FIRES_AHEAD), (bind::<BigInt, _>(now_ms()),)).get_result(self)
    }

    fn due_schedules(&mut self, schema: &Schema, after: &str, limit: i64) -> QueryResult<Vec<ScheduleRow>> {
        // The transaction around it has the write lock.
        let binds = (
            bind::<BigInt, _>(now_ms()),
            bind::<Text, _>(after),
            bind::<BigInt, _>(limit),
        );
        Sql(schema.render(DUE_SCHEDULES), binds).load(self)
    }

    fn fired(&mut self, schema: &Schema, fires: &[Fire]) -> QueryResult<Vec<Fire>> {
        let fires = json(
            &fires
                .iter()
                .map(|fire| (&fire.schedule, fire.fire_at_ms))
                .collect::<Vec<_>>(),
        )?;
        Sql(schema.render(FIRED), (bind::<Text, _>(fires),)).load(self)
    }

    fn add_fires(&mut self, schema: &Schema, fires: &[(Fire, i64)]) -> QueryResult<usize> {
        let fires = json(
            &fires
                .iter()
                .map(|(fire, job_id)| (&fire.schedule, fire.fire_at_ms, job_id))
                .collect::<Vec<_>>(),
        )?;
        write(self, |conn, now| {
            let binds = (bind::<Text, _>(fires), bind::<BigInt, _>(now));
            Sql(schema.render(ADD_FIRES), binds).execute(conn)
        })
    }

    fn advance(&mut self, schema: &Schema, steps: &[Advance]) -> QueryResult<usize> {
        let steps = json(
            &steps
                .iter()
                .map(|step| {
                    (
                        &step.name,
                        step.revision,
                        step.was_at_ms,
                        step.next_at_ms,
                        step.last_at_ms,
                    )
                })
                .collect::<Vec<_>>(),
        )?;
        write(self, |conn, _| {
            Sql(schema.render(ADVANCE), (bind::<Text, _>(steps),)).execute(conn)
        })
    }

    fn sweep_fires(&mut self, schema: &Schema, older_than_ms: i64, limit: i64) -> QueryResult<usize> {
        write(self, |conn, now| {
            let binds = (
                bind::<BigInt, _>(now.saturating_sub(older_than_ms)),
                bind::<BigInt, _>(limit),
            );
            Sql(schema.render(SWEEP_FIRES), binds).execute(conn)
        })
    }
}
