use super::accounts;
use crate::session::Session;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "write_skew",
    lesson: "REPEATABLE READ refuses the second writer, SERIALIZABLE also who decided by what changed",
    facts: "S2-14, S2-15",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    accounts(&mut c)?;
    notes("Two writers of one row at REPEATABLE READ: the second is refused, and may try again.");
    b.says("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    b.says("SELECT balance FROM accounts WHERE id = 1")?;
    a.says("UPDATE accounts SET balance = balance - 100 WHERE id = 1")?;
    b.says("UPDATE accounts SET balance = balance - 100 WHERE id = 1")?;
    b.says("ROLLBACK")?;

    notes(
        "The rule: each may empty an account as long as the other has something. Different rows, so no lock\nis in the way, and at REPEATABLE READ both commit.",
    );
    skew(&mut a, &mut b, &mut c, "REPEATABLE READ")?;
    notes(
        "At SERIALIZABLE the server sees that no order of the two would have come to this, and refuses one.\nThat is an order to try again, and every transaction must be ready for it.",
    );
    skew(&mut a, &mut b, &mut c, "SERIALIZABLE")
}

fn skew(a: &mut Session, b: &mut Session, c: &mut Session, level: &str) -> Played {
    c.says("UPDATE accounts SET balance = 1000")?;
    for (session, id) in [(&mut *a, 1), (&mut *b, 2)] {
        session.says(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        session.says("SELECT sum(balance) FROM accounts")?;
        session.says(&format!("UPDATE accounts SET balance = 0 WHERE id = {id}"))?;
    }
    a.says("COMMIT")?;
    b.says("COMMIT")?;
    c.says("SELECT sum(balance) FROM accounts")
}
