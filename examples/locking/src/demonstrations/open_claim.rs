use super::{CLAIM, explain, jobs};
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "open_claim",
    lesson: "a claim that stays open during the work keeps VACUUM from its work, in every table",
    facts: "S0-7",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut c] = stage.opens(["A", "C"])?;
    explain(&[CLAIM]);
    jobs(&mut c, 1)?;
    c.says("CREATE TABLE other (id bigint) WITH (autovacuum_enabled = false)")?;
    notes("A claims, and works before it commits.");
    a.says("BEGIN")?;
    a.says(CLAIM)?;
    notes("Meanwhile 2,000 rows come and go elsewhere. They are dead, and A might still ask for them.");
    c.says("INSERT INTO other SELECT generate_series(1, 2000)")?;
    c.says("DELETE FROM other")?;
    c.says("VACUUM other")?;
    let kept = "SELECT pg_relation_size('other') > 0 AS dead_rows_kept";
    c.says(kept)?;
    notes("With the claim committed, VACUUM removes them.");
    a.says("COMMIT")?;
    c.says("VACUUM other")?;
    c.says(kept)
}
