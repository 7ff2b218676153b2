use super::{CLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "claim_and_mark",
    lesson: "choose and mark in one statement, and commit it before the work begins",
    facts: "S0-4, S0-5, S0-6",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 2)?;
    notes("Each claim is one statement and one transaction. What it gives back, the worker keeps.");
    a.says(CLAIM)?;
    b.says(CLAIM)?;
    notes("One statement is not one commit, if the client has opened a transaction before.");
    c.says("UPDATE jobs SET state = 'ready', generation = 0")?;
    a.says("BEGIN")?;
    a.says(CLAIM)?;
    notes("Nobody else sees that A has the job: whatever A did for it now, it did unclaimed.");
    let row = "SELECT id, state, generation FROM jobs WHERE id = 1";
    b.says(row)?;
    a.says("ROLLBACK")?;
    notes("And A does not have it.");
    b.says(row)
}
