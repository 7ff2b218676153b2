use super::{FIRST, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "row_locks",
    lesson: "[1, 2, 1]: a row lock ends with its transaction, and records nothing",
    facts: "S0-1",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    jobs(&mut c, 2)?;
    notes("While A has the first row locked, B gets the second.");
    a.says("BEGIN")?;
    a.says(FIRST)?;
    b.says("BEGIN")?;
    b.says(FIRST)?;
    b.says("ROLLBACK")?;
    notes("A ends its transaction, and has written nothing: its row is handed out again.");
    a.says("COMMIT")?;
    b.says(FIRST)
}
