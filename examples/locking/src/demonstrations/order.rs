use super::{CLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "order",
    lesson: "ORDER BY id is not first in, first out",
    facts: "S0-8, S2-9",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 2)?;
    notes("Somebody has job 1 locked for a moment: job 2 is handed out before it.");
    a.says("BEGIN")?;
    a.says("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")?;
    b.says(CLAIM)?;
    a.says("ROLLBACK")?;
    b.says(CLAIM)?;
    notes(
        "Ids are given out when rows are written, and rows are seen when they are committed.\nJob 3 was enqueued first, and job 4 is seen first.",
    );
    a.says("BEGIN")?;
    a.says("INSERT INTO jobs DEFAULT VALUES RETURNING id")?;
    c.says("INSERT INTO jobs DEFAULT VALUES RETURNING id")?;
    b.says(CLAIM)?;
    a.says("COMMIT")?;
    b.says(CLAIM)
}
