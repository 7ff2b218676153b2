use super::{CLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "table_locks",
    lesson: "SKIP LOCKED does not skip a locked table",
    facts: "S0-9",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 1)?;
    notes("As a migration locks the table: B, who skips locked rows, waits.");
    a.says("BEGIN")?;
    a.says("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")?;
    b.waits(CLAIM)?;
    a.says("ROLLBACK")?;
    b.goes_on()?;
    notes("As CREATE INDEX locks it, against writes. What ends the wait is a lock_timeout.");
    a.says("BEGIN")?;
    a.says("LOCK TABLE jobs IN SHARE MODE")?;
    b.says("SET lock_timeout = '300ms'")?;
    b.says(CLAIM)?;
    a.says("ROLLBACK")
}
