use super::{CLAIM, EXPIRE, RECLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "waiting_completion",
    lesson: "a completion that waits for a take-over is judged by how that ended",
    facts: "S0-15, S0-15b, S0-15c",
    play,
};

const COMPLETE: &str = "UPDATE jobs SET state = 'completed' WHERE id = 1 AND generation = 1 AND state = 'running'";

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut z, mut b, mut c] = stage.opens(["Z", "B", "C"])?;
    explain(&[CLAIM, RECLAIM]);
    jobs(&mut c, 1)?;
    z.says(CLAIM)?;
    c.says(EXPIRE)?;
    notes(
        "B is about to take over, uncommitted. Z's completion found generation 1, waits for the row,\nand looks at it again.",
    );
    b.says("BEGIN")?;
    b.says(RECLAIM)?;
    z.waits(COMPLETE)?;
    notes("B rolls back: Z has been the owner all the time.");
    b.says("ROLLBACK")?;
    z.goes_on()?;

    notes("The same, and B commits.");
    c.says("UPDATE jobs SET state = 'running', generation = 1")?;
    b.says("BEGIN")?;
    b.says(RECLAIM)?;
    z.waits(COMPLETE)?;
    b.says("COMMIT")?;
    z.goes_on()?;

    notes("The other way round: B's take-over waits for Z's completion, and finds nothing to take over.");
    c.says("UPDATE jobs SET state = 'running', generation = 1")?;
    c.says(EXPIRE)?;
    z.says("BEGIN")?;
    z.says(COMPLETE)?;
    b.waits(RECLAIM)?;
    z.says("COMMIT")?;
    b.goes_on()
}
