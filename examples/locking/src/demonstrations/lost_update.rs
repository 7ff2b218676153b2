use super::accounts;
use crate::session::Session;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "lost_update",
    lesson: "read, then write loses an update; three cures",
    facts: "S2-1, S2-2, S2-13",
    play,
};

const READ: &str = "SELECT balance FROM accounts WHERE id = 1";

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    accounts(&mut c)?;
    lost(&mut a, &mut b)?;
    c.says(READ)?;
    c.says("UPDATE accounts SET balance = 1000")?;
    locked(&mut a, &mut b)?;
    c.says(READ)?;
    c.says("UPDATE accounts SET balance = 1000")?;
    in_the_statement(&mut a, &mut b)?;
    c.says(READ)?;
    c.says("UPDATE accounts SET balance = 1000")?;
    versioned(&mut a, &mut b)?;
    c.says(READ)
}

fn lost(a: &mut Session, b: &mut Session) -> Played {
    notes(
        "Two withdrawals of 100 from 1,000. Both read 1,000, both write 900: one is lost.\nThat each is a transaction does not help.",
    );
    for session in [&mut *a, &mut *b] {
        session.says("BEGIN")?;
        session.says(READ)?;
    }
    for session in [a, b] {
        session.says("UPDATE accounts SET balance = 900 WHERE id = 1")?;
        session.says("COMMIT")?;
    }
    Ok(())
}

fn locked(a: &mut Session, b: &mut Session) -> Played {
    notes("First cure: FOR UPDATE. B waits with its read, and reads what A has left.");
    let read = format!("{READ} FOR UPDATE");
    a.says("BEGIN")?;
    a.says(&read)?;
    b.says("BEGIN")?;
    b.waits(&read)?;
    a.says("UPDATE accounts SET balance = 900 WHERE id = 1")?;
    a.says("COMMIT")?;
    b.goes_on()?;
    b.says("UPDATE accounts SET balance = 800 WHERE id = 1")?;
    b.says("COMMIT")
}

fn in_the_statement(a: &mut Session, b: &mut Session) -> Played {
    notes("Second cure: count inside of the statement. B waits for A, and counts on from there.");
    let withdraw = "UPDATE accounts SET balance = balance - 100 WHERE id = 1";
    a.says("BEGIN")?;
    a.says(withdraw)?;
    b.waits(withdraw)?;
    a.says("COMMIT")?;
    b.goes_on()
}

fn versioned(a: &mut Session, b: &mut Session) -> Played {
    notes(
        "Third cure: a version column. Zero rows say that somebody was faster: read again, try again.\nB waits here, too: no lock is not no waiting.",
    );
    let read = "SELECT balance, version FROM accounts WHERE id = 1";
    let write = "UPDATE accounts SET balance = 900, version = version + 1 WHERE id = 1 AND version = 1";
    a.says(read)?;
    b.says(read)?;
    a.says("BEGIN")?;
    a.says(write)?;
    b.waits(write)?;
    a.says("COMMIT")?;
    b.goes_on()?;
    b.says(read)?;
    b.says("UPDATE accounts SET balance = 800, version = version + 1 WHERE id = 1 AND version = 2")
}
