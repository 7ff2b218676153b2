use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "clocks",
    lesson: "now() stands still in a transaction, clock_timestamp() moves",
    facts: "S0-18",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    c.says("CREATE TABLE leases (writer text, by_now timestamptz, by_clock timestamptz)")?;
    let lease = |writer| {
        format!(
            "INSERT INTO leases VALUES ('{writer}', now() + interval '1 minute', clock_timestamp() + interval '1 minute')"
        )
    };
    notes("A's transaction begins; half a second later it writes a lease of a minute, beside B.");
    a.says("BEGIN")?;
    a.says("SELECT FROM pg_sleep(0.5)")?;
    a.says(&lease("A"))?;
    a.says("COMMIT")?;
    b.says(&lease("B"))?;
    notes("Counted from now(), the time that A's transaction had used up is missing from its lease.");
    c.says("SELECT writer, by_clock - by_now > interval '0.5 seconds' AS lease_is_short FROM leases ORDER BY writer")?;
    notes("So a comparison with now(), late in a long transaction, takes an expired lease for a valid one.");
    a.says("BEGIN")?;
    c.says("UPDATE leases SET by_clock = clock_timestamp() + interval '10 milliseconds' WHERE writer = 'A'")?;
    a.says("SELECT FROM pg_sleep(0.1)")?;
    a.says("SELECT by_clock > now() AS valid_by_now, by_clock > clock_timestamp() AS valid_by_clock FROM leases WHERE writer = 'A'")?;
    a.says("COMMIT")
}
