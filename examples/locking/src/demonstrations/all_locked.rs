use super::{FIRST, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "all_locked",
    lesson: "SKIP LOCKED skips and does not remove: all locked is not empty",
    facts: "S0-2, S0-3",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    jobs(&mut c, 2)?;
    a.says("BEGIN")?;
    a.says("SELECT id FROM jobs FOR UPDATE")?;
    notes("B finds nothing that it may have. Taken for \"the queue is empty\", that would be wrong.");
    b.says(FIRST)?;
    notes("A plain read, asked only after zero rows, tells the two apart.");
    b.says("SELECT count(*) AS ready FROM jobs WHERE state = 'ready'")?;
    a.says("ROLLBACK")?;
    b.says(FIRST)
}
