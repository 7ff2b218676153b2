use super::accounts;
use crate::session::Session;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "deadlock",
    lesson: "locks in opposite order deadlock, locks in one order do not",
    facts: "S2-12, S4-11",
    play,
};

fn take(id: u32) -> String {
    format!("UPDATE accounts SET balance = balance - 100 WHERE id = {id}")
}

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    accounts(&mut c)?;
    opposite(&mut a, &mut b)?;
    ordered(&mut a, &mut b, &mut c)
}

fn opposite(a: &mut Session, b: &mut Session) -> Played {
    notes("A locks 1 and then 2, B locks 2 and then 1.");
    a.says("BEGIN")?;
    b.says("BEGIN")?;
    a.says(&take(1))?;
    b.says(&take(2))?;
    a.waits(&take(2))?;
    b.begins(&take(1))?;
    // The server chooses which.
    let mut ended = [a.ends()?.concat(), b.ends()?.concat()];
    ended.sort();
    notes(&format!(
        "The server ends one of the two, and the other goes on:\n  {}\n  {}",
        ended[1], ended[0]
    ));
    a.says("ROLLBACK")?;
    b.says("ROLLBACK")
}

fn ordered(a: &mut Session, b: &mut Session, c: &mut Session) -> Played {
    notes("Both in the order of the ids: B waits with its first lock, while it has nothing that A wants.");
    a.says("BEGIN")?;
    a.says(&take(1))?;
    b.says("BEGIN")?;
    b.waits(&take(1))?;
    a.says(&take(2))?;
    a.says("COMMIT")?;
    b.goes_on()?;
    b.says(&take(2))?;
    b.says("COMMIT")?;

    notes(
        "One statement on many rows locks them in whatever order it finds them. A CTE that locks first, ordered, cures that:\nB waits for 1 and does not have 2.",
    );
    let bulk = "WITH mine AS MATERIALIZED (
    SELECT id FROM accounts WHERE id = ANY ('{2, 1}') ORDER BY id FOR NO KEY UPDATE
)
UPDATE accounts SET balance = balance - 100 FROM mine WHERE accounts.id = mine.id";
    a.says("BEGIN")?;
    a.says(&take(1))?;
    b.waits(bulk)?;
    c.says("SELECT id FROM accounts WHERE id = 2 FOR NO KEY UPDATE NOWAIT")?;
    a.says("COMMIT")?;
    b.goes_on()
}
