use super::accounts;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "who_waits",
    lesson: "FOR UPDATE is in the way of writers of that row, and of nobody else",
    facts: "S2-3, S2-4",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    accounts(&mut c)?;
    a.says("BEGIN")?;
    a.says("SELECT balance FROM accounts WHERE id = 1 FOR UPDATE")?;
    notes("Whoever would change or lock the row waits; here, for 200 ms at most.");
    b.says("SET lock_timeout = '200ms'")?;
    b.says("SELECT balance FROM accounts WHERE id = 1 FOR UPDATE")?;
    b.says("UPDATE accounts SET balance = 0 WHERE id = 1")?;
    b.says("DELETE FROM accounts WHERE id = 1")?;
    notes("Plain reads do not, and the other row is free.");
    b.says("SELECT balance FROM accounts WHERE id = 1")?;
    b.says("UPDATE accounts SET balance = 0 WHERE id = 2")?;
    notes("On the table A has the weakest of locks but one: only DDL and LOCK TABLE meet it.");
    c.says(
        "SELECT mode FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE relation = 'accounts'::regclass AND application_name = 'A'",
    )
}
