use super::jobs;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "foreign_keys",
    lesson: "FOR UPDATE is in the way of a foreign key, FOR NO KEY UPDATE is not",
    facts: "S2-16",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    jobs(&mut c, 1)?;
    c.says("CREATE TABLE notes (job_id bigint REFERENCES jobs, text text)")?;
    notes("B writes a row that refers to the job: it takes FOR KEY SHARE on it, and waits.");
    let refer = "INSERT INTO notes VALUES (1, 'seen')";
    a.says("BEGIN")?;
    a.says("SELECT id FROM jobs WHERE id = 1 FOR UPDATE")?;
    b.waits(refer)?;
    a.says("ROLLBACK")?;
    b.goes_on()?;
    notes("The weaker lock says that the key will not change, and lets it through.");
    a.says("BEGIN")?;
    a.says("SELECT id FROM jobs WHERE id = 1 FOR NO KEY UPDATE")?;
    b.says(refer)?;
    notes("Among claimers it does the same as the stronger one.");
    b.says("SELECT id FROM jobs FOR NO KEY UPDATE SKIP LOCKED")?;
    a.says("ROLLBACK")
}
