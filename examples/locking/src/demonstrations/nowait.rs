use super::accounts;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "nowait",
    lesson: "NOWAIT fails at once, and takes the transaction with it",
    facts: "S2-10",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    accounts(&mut c)?;
    a.says("BEGIN")?;
    a.says("SELECT balance FROM accounts WHERE id = 1 FOR UPDATE")?;
    notes("B gets an error instead of a wait. After any error, the transaction takes nothing but its end.");
    let nowait = "SELECT balance FROM accounts WHERE id = 1 FOR UPDATE NOWAIT";
    b.says("BEGIN")?;
    b.says(nowait)?;
    b.says("SELECT balance FROM accounts WHERE id = 2")?;
    b.says("ROLLBACK")?;
    notes("Who wants to go on afterwards sets a savepoint before.");
    b.says("BEGIN")?;
    b.says("SAVEPOINT before")?;
    b.says(nowait)?;
    b.says("ROLLBACK TO before")?;
    b.says("SELECT balance FROM accounts WHERE id = 2")?;
    b.says("COMMIT")?;
    notes("SKIP LOCKED answers as fast, without an error: zero rows.");
    b.says("SELECT balance FROM accounts WHERE id = 1 FOR UPDATE SKIP LOCKED")?;
    a.says("ROLLBACK")
}
