//! Threads that claim for themselves from a queue with a cap.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::in_every_order;
use crate::lease::Held;
use crate::worker::{Cap, Leases};

#[test]
fn no_more_than_the_cap_is_held_at_any_time() {
    in_every_order("no_more_than_the_cap_is_held_at_any_time", || {
        let leases = Arc::new(Leases::new());
        let cap = Arc::new(Cap::new("mail", 1));
        let claimed = Arc::new(AtomicUsize::new(0));
        let claimers = [1, 2].map(|id| {
            let (leases, cap, claimed) = (leases.clone(), cap.clone(), claimed.clone());
            thread::spawn(move || {
                // The store has a job for each.
                let held = cap.claim(&leases, 1, |room| {
                    (room > 0).then(|| {
                        let held = Held::of(id);
                        leases.add(&held);
                        held
                    })
                });
                assert!(leases.held_in("mail") <= 1);
                if let Some(held) = held {
                    claimed.fetch_add(1, Ordering::AcqRel);
                    leases.remove(&held.fence);
                }
            })
        });
        for claimer in claimers {
            claimer.join().unwrap();
        }
        // The other one may have come while the first had the room.
        assert!(claimed.load(Ordering::Acquire) >= 1);
        assert_eq!(leases.held_in("mail"), 0);
    });
}
