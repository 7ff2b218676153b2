use super::JOBS;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "strict_deadline",
    lesson: "a strict deadline locks first and compares then; the instant of COMMIT is nobody's to promise",
    facts: "S0-20, S0-21, S0-22",
    play,
};

const VALID: &str = "SELECT count(*) AS valid_leases FROM jobs WHERE lease_until > clock_timestamp()";

/// Completes job `id`, with one comparison of the lease inside of the lock's query, or outside of it.
fn strict(id: u32, inside: &str, outside: &str) -> String {
    format!(
        "WITH locked AS MATERIALIZED (
    SELECT id, lease_until FROM jobs WHERE id = {id} AND generation = 1 AND state = 'running'{inside}
    FOR NO KEY UPDATE
)
UPDATE jobs SET state = 'completed' FROM locked
WHERE jobs.id = locked.id{outside}"
    )
}

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut y, mut z, mut c] = stage.opens(["A", "Y", "Z", "C"])?;
    c.says(JOBS)?;
    c.says(
        "INSERT INTO jobs (state, generation, lease_until)
SELECT 'running', 1, clock_timestamp() + interval '3 seconds' FROM generate_series(1, 2)",
    )?;
    notes("Y compares beside the lock, Z after it. Both begin with a valid lease, and wait past it.");
    a.says("BEGIN")?;
    a.says("SELECT id FROM jobs FOR UPDATE")?;
    y.waits(&strict(1, " AND lease_until > clock_timestamp()", ""))?;
    z.waits(&strict(2, "", " AND locked.lease_until > clock_timestamp()"))?;
    c.says(VALID)?;
    c.says_until(VALID, "0")?;
    a.says("COMMIT")?;
    y.goes_on()?;
    z.goes_on()?;

    notes("No comparison covers what comes after it: the check is passed, the lease runs out, and COMMIT commits.");
    let [mut z] = stage.sessions(["Z"])?;
    c.says("UPDATE jobs SET state = 'running', lease_until = clock_timestamp() + interval '2 seconds' WHERE id = 2")?;
    z.says("BEGIN")?;
    z.says(&strict(2, "", " AND locked.lease_until > clock_timestamp()"))?;
    c.says_until(VALID, "0")?;
    z.says("COMMIT")?;
    c.says("SELECT id, state FROM jobs WHERE id = 2")?;

    notes(
        "Expired, and nobody has taken over: the generation alone lets the worker finish, and no work is thrown away.\nWhich of the two it should be is for the job to say.",
    );
    c.says("UPDATE jobs SET state = 'running', lease_until = clock_timestamp() - interval '1 second' WHERE id = 1")?;
    y.says("UPDATE jobs SET state = 'completed' WHERE id = 1 AND generation = 1 AND state = 'running'")
}
