use super::{CLAIM, EXPIRE, RECLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "by_id_alone",
    lesson: "a completion by id alone lets the stale worker through, and the owner is refused",
    facts: "S0-14",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut z, mut b, mut c] = stage.opens(["Z", "B", "C"])?;
    explain(&[CLAIM, RECLAIM]);
    jobs(&mut c, 1)?;
    z.says(CLAIM)?;
    c.says(EXPIRE)?;
    b.says(RECLAIM)?;
    notes("Z does not say which claim it means.");
    z.says("UPDATE jobs SET state = 'completed' WHERE id = 1 AND state = 'running'")?;
    notes("It is recorded as if B had done it; and B, who did, is told no.");
    c.says("SELECT id, state, generation FROM jobs")?;
    b.says("UPDATE jobs SET state = 'completed' WHERE id = 1 AND generation = 2 AND state = 'running'")
}
