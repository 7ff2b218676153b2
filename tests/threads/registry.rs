//! Leases come and go while the worker stops.

use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread;

use crate::in_every_order;
use crate::lease::Held;
use crate::worker::Leases;

/// Loom's clock stands still, so a wake-up that is missed is one that never comes.
#[test]
fn a_shutdown_wakes_with_the_last_lease_and_not_before() {
    in_every_order("a_shutdown_wakes_with_the_last_lease_and_not_before", || {
        let leases = Arc::new(Leases::new());
        let held = [Held::of(1), Held::of(2)];
        for held in &held {
            leases.add(held);
        }
        let settlers = held.map(|held| {
            let leases = leases.clone();
            thread::spawn(move || leases.remove(&held.fence))
        });
        assert!(leases.wait_until_none(None, || false));
        assert!(leases.all().is_empty());
        let last = settlers.map(|settler| settler.join().unwrap());
        assert_eq!(last.iter().filter(|last| **last).count(), 1);
    });
}

#[test]
fn a_heartbeat_that_looks_after_a_poke_sees_the_lease() {
    in_every_order("a_heartbeat_that_looks_after_a_poke_sees_the_lease", || {
        let leases = Arc::new(Leases::new());
        let claimer = {
            let leases = leases.clone();
            thread::spawn(move || leases.add(&Held::of(1)))
        };
        // The channel is none of loom's: this is where it may go on with the other thread.
        let _ = leases.all();
        if leases.poked().try_recv().is_ok() {
            assert_eq!(leases.all().len(), 1);
        } else {
            claimer.join().unwrap();
            assert!(leases.poked().try_recv().is_ok());
        }
    });
}

#[test]
fn a_new_lease_is_seen_by_the_heartbeat_or_wakes_it() {
    in_every_order("a_new_lease_is_seen_by_the_heartbeat_or_wakes_it", || {
        let leases = Arc::new(Leases::new());
        let claimer = {
            let leases = leases.clone();
            thread::spawn(move || leases.add(&Held::of(1)))
        };
        leases.looks_at(None);
        let seen = leases.all().len() == 1;
        leases.looks_at(Instant::now().checked_add(Duration::from_secs(60)));
        claimer.join().unwrap();
        assert!(seen || leases.poked().try_recv().is_ok());
    });
}
