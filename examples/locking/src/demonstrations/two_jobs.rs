use super::{CLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "two_jobs",
    lesson: "generations of different jobs do not order their writes to one thing",
    facts: "S0-28",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 2)?;
    c.says("CREATE TABLE page (writer text NOT NULL, fence bigint NOT NULL)")?;
    c.says("INSERT INTO page VALUES ('nobody', 0)")?;
    notes("Job 1 has had four owners before A. B claims job 2 after that, for the first time.");
    c.says("UPDATE jobs SET generation = 4 WHERE id = 1")?;
    a.says(CLAIM)?;
    b.says(CLAIM)?;
    notes(
        "Both jobs write the same page, which lets nobody with a lower number through.\nB came last and is refused: the two numbers count different things.",
    );
    let write = |writer, fence| format!("UPDATE page SET writer = '{writer}', fence = {fence} WHERE fence <= {fence}");
    a.says(&write("A", 5))?;
    b.says(&write("B", 1))?;
    notes("A thing that several jobs write needs a number of its own, drawn by whoever gets hold of it.");
    let draw = "UPDATE page SET fence = fence + 1 RETURNING fence";
    a.says(draw)?;
    b.says(draw)?;
    a.says("UPDATE page SET writer = 'A' WHERE fence = 6")?;
    b.says("UPDATE page SET writer = 'B' WHERE fence = 7")
}
