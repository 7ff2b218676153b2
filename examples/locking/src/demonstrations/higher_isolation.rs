use super::{CLAIM, explain, jobs};
use crate::session::Session;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "higher_isolation",
    lesson: "above READ COMMITTED, claims and completions fail with 40001: retry, the lease is not lost",
    facts: "S0-29",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 1)?;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        claims(&mut a, &mut b, level)?;
        completes(&mut a, &mut b, level)?;
        c.says("UPDATE jobs SET state = 'ready'")?;
    }
    Ok(())
}

fn claims(a: &mut Session, b: &mut Session, level: &str) -> Played {
    notes(&format!(
        "A claim at {level}: its candidate has changed since the transaction's first look."
    ));
    a.says(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    a.says("SELECT count(*) FROM jobs")?;
    b.says("UPDATE jobs SET lease_token = NULL")?;
    a.says(CLAIM)?;
    a.says("ROLLBACK")?;
    a.says(CLAIM)
}

fn completes(a: &mut Session, b: &mut Session, level: &str) -> Played {
    notes("A's completion, in a transaction that has read something before A's own heartbeat (B) was committed.");
    let complete = "UPDATE jobs SET state = 'completed' WHERE id = 1 AND state = 'running' RETURNING state";
    a.says(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    a.says("SELECT count(*) FROM jobs")?;
    b.says("UPDATE jobs SET lease_until = clock_timestamp() + interval '1 minute' WHERE id = 1 AND state = 'running'")?;
    a.says(complete)?;
    a.says("ROLLBACK")?;
    notes("A still has the job. The same once more:");
    a.says(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    a.says(complete)?;
    a.says("COMMIT")
}
