use super::{CLAIM, EXPIRE, RECLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "stale_completion",
    lesson: "a stale worker's writes change zero rows, which is no error, and is told apart",
    facts: "S0-12, S0-13, S0-16, S0-17",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut z, mut b, mut c] = stage.opens(["Z", "B", "C"])?;
    explain(&[CLAIM, RECLAIM]);
    jobs(&mut c, 1)?;
    notes("Z claims, and is held up for longer than its lease. B takes over.");
    z.says(CLAIM)?;
    c.says(EXPIRE)?;
    b.says(RECLAIM)?;
    notes(
        "Z comes back. Its heartbeat and its completion name the generation that it was told.\nThe row says running all the while: the state alone would have let Z through.",
    );
    z.says(
        "UPDATE jobs SET lease_until = clock_timestamp() + interval '1 minute'
WHERE id = 1 AND generation = 1 AND state = 'running'",
    )?;
    let complete = |generation| {
        format!("UPDATE jobs SET state = 'completed' WHERE id = 1 AND generation = {generation} AND state = 'running'")
    };
    z.says(&complete(1))?;
    notes("Zero rows are no error: who does not read the count believes that it is done. B's passes.");
    b.says(&complete(2))?;

    notes("Why zero rows? One read tells, after the fact. Five jobs of which Z was told generation 1:");
    c.says(
        "INSERT INTO jobs (id, state, generation) VALUES
    (2, 'running', 2), (3, 'completed', 1), (4, 'cancelled', 1), (5, 'ready', 0)",
    )?;
    z.says(
        "SELECT told.id, state, generation FROM generate_series(2, 6) AS told (id) LEFT JOIN jobs USING (id) ORDER BY id",
    )?;
    notes("Lost to generation 2; finished; cancelled; a claim that the database forgot; deleted. None is a success.");
    Ok(())
}
