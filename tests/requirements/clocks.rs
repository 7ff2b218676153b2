//! What a clock says to a statement that waited.

use diesel::Connection as _;
use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::{TestDb, conformance, eventually};

use crate::jobs::{SOON, claim, claim_statement, clock_ms, control, enqueue, lease_until_ms, migrated};
#[cfg(feature = "postgres")]
use crate::session::Session;

conformance! {
    #[skip(sqlite, "SQLite has no clock of its own")]
    fn s0_18_now_stands_still_in_a_transaction_and_the_clock_moves(db: &mut Db) {
        let mut a = Session::of(db);
        let (now, clock) = ("SELECT now()::text", "SELECT clock_timestamp()::text");
        a.run("BEGIN");
        let (first_now, first_clock) = (a.text(now), a.text(clock));
        eventually(SOON, "the clock moves", || a.text(clock) != first_clock);
        assert_eq!(a.text(now), first_now);
        a.run("COMMIT");
        assert_ne!(a.text(now), first_now);
    }
}

conformance! {
    fn s0_18_a_lease_is_counted_from_the_clock_also_late_in_a_transaction(db: &mut Db) {
        let (mut conn, mut late) = (migrated(db), control(db));
        enqueue(&mut conn, 1);
        let held = {
            enqueue(&mut conn, 1);
            claim(&mut conn)
        };
        late.transaction::<_, diesel::result::Error, _>(|late| {
            // On PostgreSQL the transaction's own time is that of its begin.
            let begun = clock_ms(db);
            eventually(SOON, "time passes", || clock_ms(db) > begun + 50);
            let before = clock_ms(db);
            let claimed = claim_statement(late, 1)?[0];
            assert!(late.heartbeat(&Schema::default(), &[held])?[0].renewed);
            Ok((before, claimed))
        }).map(|(before, claimed)| {
            for id in [claimed.id, held.id] {
                assert!(lease_until_ms(db, id) >= before + 60_000);
            }
        }).unwrap();
    }
}

/// A blocker of table 1.2, how it ends, and by which clock the waiting completion compares.
#[cfg(feature = "postgres")]
const VARIANTS: [(&str, &str, &str, usize); 8] = [
    (
        "SELECT FROM leasehold.jobs WHERE id = ID FOR UPDATE",
        "COMMIT",
        "clock_timestamp",
        1,
    ),
    (
        "SELECT FROM leasehold.jobs WHERE id = ID FOR UPDATE",
        "COMMIT",
        "now",
        1,
    ),
    (
        "SELECT FROM leasehold.jobs WHERE id = ID FOR UPDATE",
        "ROLLBACK",
        "clock_timestamp",
        1,
    ),
    (
        "SELECT FROM leasehold.jobs WHERE id = ID FOR UPDATE",
        "ROLLBACK",
        "now",
        1,
    ),
    (
        "UPDATE leasehold.jobs SET priority = priority WHERE id = ID",
        "COMMIT",
        "clock_timestamp",
        0,
    ),
    (
        "UPDATE leasehold.jobs SET priority = priority WHERE id = ID",
        "COMMIT",
        "now",
        1,
    ),
    (
        "UPDATE leasehold.jobs SET priority = priority WHERE id = ID",
        "ROLLBACK",
        "clock_timestamp",
        1,
    ),
    (
        "UPDATE leasehold.jobs SET priority = priority WHERE id = ID",
        "ROLLBACK",
        "now",
        1,
    ),
];

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s0_19_a_completion_that_waits_past_its_lease_passes_in_seven_of_eight_variants(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, VARIANTS.len());
        let fences = claim_statement(&mut conn, 8).unwrap();
        // All at once, so that one wait for the lease's end does for all.
        let mut waiting = Vec::new();
        db.set_time("leasehold.jobs", "lease_until", 4_000, "true");
        for ((blocker, end, clock, rows), fence) in VARIANTS.into_iter().zip(&fences) {
            let (mut a, z) = (Session::of(db), Session::of(db));
            a.run(&format!("BEGIN; {}", blocker.replace("ID", &fence.id.to_string())));
            let completion = format!(
                "UPDATE leasehold.jobs SET priority = 7 WHERE id = {} AND generation = {} AND lease_token = '{}'
                 AND state = 'running' AND lease_until > {clock}()",
                fence.id, fence.generation, fence.lease_token
            );
            waiting.push((a, end, rows, clock, z.waits(db, move |z| z.rows(&completion))));
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs WHERE lease_until > clock_timestamp()"), 8,
            "every completion began with a valid lease");
        eventually(SOON, "the leases run out", || {
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE lease_until > clock_timestamp()") == 0
        });
        for (mut a, end, rows, clock, z) in waiting {
            a.run(end);
            assert_eq!(z.answer().1, rows, "{end}, {clock}()");
        }
    }
}
