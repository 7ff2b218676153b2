use super::JOBS;
use crate::session::Session;
use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "expired_lease",
    lesson: "a completion that asks for a valid lease and waits past it: passes in seven of eight variants",
    facts: "S0-19",
    play,
};

const LOCK: &str = "SELECT id FROM jobs WHERE id = ID FOR UPDATE";
const UPDATE: &str = "UPDATE jobs SET lease_token = lease_token WHERE id = ID";

/// What Z waits for, how that ends, and the clock that Z compares with.
const VARIANTS: [(&str, &str, &str); 8] = [
    (LOCK, "COMMIT", "clock_timestamp()"),
    (LOCK, "COMMIT", "now()"),
    (LOCK, "ROLLBACK", "clock_timestamp()"),
    (LOCK, "ROLLBACK", "now()"),
    (UPDATE, "COMMIT", "clock_timestamp()"),
    (UPDATE, "COMMIT", "now()"),
    (UPDATE, "ROLLBACK", "clock_timestamp()"),
    (UPDATE, "ROLLBACK", "now()"),
];

const VALID: &str = "SELECT count(*) AS valid_leases FROM jobs WHERE lease_until > clock_timestamp()";

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut c] = stage.opens_as(["C"], "C, and A1 to A8 in the way of Z1 to Z8")?;
    c.says(JOBS)?;
    let mut pairs = Vec::new();
    for id in 1..=VARIANTS.len() {
        pairs.push(stage.sessions([&format!("A{id}"), &format!("Z{id}")])?);
    }
    c.says(
        "INSERT INTO jobs (state, generation, lease_until)
SELECT 'running', 1, clock_timestamp() + interval '4 seconds' FROM generate_series(1, 8)",
    )?;
    notes("Each Z has a job, and wants to complete it while its lease is valid. Something is in its way.");
    for (id, ([a, z], variant)) in (1..).zip(pairs.iter_mut().zip(VARIANTS)) {
        blocked(a, z, id, variant)?;
    }
    notes("All eight began with a valid lease. Now the leases run out, and the ways are cleared.");
    c.says(VALID)?;
    c.says_until(VALID, "0")?;
    let mut table = vec!["in the way           ended by  Z compared with    Z completed".to_owned()];
    for ([a, z], (blocker, end, clock)) in pairs.iter_mut().zip(VARIANTS) {
        a.says(end)?;
        let ended = z.ends()?.concat();
        let blocker = if blocker == LOCK {
            "SELECT … FOR UPDATE"
        } else {
            "UPDATE"
        };
        table.push(format!("{blocker:20} {end:9} {clock:18} {ended}"));
    }
    notes(&table.join("\n"));
    notes(
        "WHERE is looked at again only when the row has a new committed version, and even then now() is old.\nA test with one kind of blocker may pass for the wrong reason.",
    );
    Ok(())
}

fn blocked(a: &mut Session, z: &mut Session, id: u32, (blocker, _, clock): (&str, &str, &str)) -> Played {
    a.says("BEGIN")?;
    a.says(&blocker.replace("ID", &id.to_string()))?;
    z.waits(&format!(
        "UPDATE jobs SET state = 'completed' WHERE id = {id} AND generation = 1 AND lease_until > {clock}"
    ))
}
