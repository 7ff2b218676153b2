//! A standby that lagged is promoted: what the old primary had acknowledged is forgotten, and given out again.

use leasehold::__private::*;
use leasehold::{Refusal, Schema};
use leasehold_tests::postgres::{Cluster, Standby as _, cluster};

use crate::fences::writes;
use crate::jobs::{claim_statement, complete, enqueue, take_over};
use crate::session::Session;
use diesel::prelude::*;

/// `LEASEHOLD_PROMOTIONS`, 2 unless it is set.
fn promotions() -> u32 {
    std::env::var("LEASEHOLD_PROMOTIONS").map_or(2, |text| text.parse().expect("LEASEHOLD_PROMOTIONS is a number"))
}

fn connection(cluster: &Cluster) -> PgConnection {
    PgConnection::connect(&cluster.url(), &ConnectionSettings::default()).unwrap()
}

/// Each job is claimed on the primary, and the standby has not heard of it. There some are claimed by another worker, at the
/// same generation; some by a third one after that; and some by nobody.
#[test]
fn s0_12_after_a_promotion_with_lag_no_stale_write_passes_and_each_is_told_as_a_durability_loss() {
    let mut primary = cluster();
    leasehold::migrate(&mut connection(&primary)).unwrap();
    let (mut losses, mut stale_writes) = (0, 0);
    for _ in 0..promotions() {
        let standby = primary.standby();
        enqueue(&mut connection(&primary), 32);
        primary.wait_for(&standby);
        standby.cut_off();
        // Committed durably, and told.
        let told = claim_statement(&mut connection(&primary), 32).unwrap();
        assert_eq!(told.len(), 32);
        primary.crash();
        standby.promote();
        let mut conn = connection(&standby);
        let mut owners = claim_statement(&mut conn, 16).unwrap();
        for owner in owners.iter_mut().take(8) {
            *owner = take_over(&mut conn, owner.id);
        }
        for stale in &told {
            let row = conn.ownership(&Schema::default(), stale.id).unwrap();
            let refusal = refusal(stale, row.as_ref()).expect("it is no longer its own");
            for write in writes() {
                assert!(!(write.run)(&mut conn, stale), "{} of {stale:?} passed", write.name);
                stale_writes += 1;
            }
            let is_above = row.is_some_and(|row| row.generation > stale.generation);
            match refusal {
                Refusal::DurabilityLoss { .. } => losses += 1,
                Refusal::Lost { .. } if is_above => {}
                other => panic!("{stale:?} was told {other:?}"),
            }
        }
        for owner in owners {
            assert_eq!(complete(&mut conn, &owner, false), Completion::Completed);
        }
        Session::new(conn).run("DELETE FROM leasehold.jobs");
        primary = standby;
    }
    // Eight of each round were claimed once more, so that their generation proves nothing.
    assert_eq!(losses, 24 * promotions());
    assert_eq!(stale_writes, 32 * 8 * promotions());
}
