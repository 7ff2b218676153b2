use super::{CLAIM, FIRST, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "work_inside",
    lesson: "work inside the locking transaction leaves no trace when the worker dies",
    facts: "S2-8",
    play,
};

const KILL: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'A' AND datname = current_database()";
const GONE: &str = "SELECT count(*) AS sessions FROM pg_stat_activity
WHERE application_name = 'A' AND datname = current_database()";

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 1)?;
    notes("A locks the job and works on it in the same transaction. Then its connection breaks.");
    a.says("BEGIN")?;
    a.says(FIRST)?;
    c.says(KILL)?;
    c.says_until(GONE, "0")?;
    notes(
        "The job is handed out again, which is good. That somebody has tried is known to nobody:\na job that kills its worker each time would be tried for ever.",
    );
    let row = "SELECT id, state, generation FROM jobs";
    b.says(row)?;
    b.says(FIRST)?;
    notes("A claim that was committed stays. It has been counted, and a lease says when it is over.");
    let [mut a] = stage.sessions(["A"])?;
    a.says(CLAIM)?;
    c.says(KILL)?;
    c.says_until(GONE, "0")?;
    b.says(row)
}
