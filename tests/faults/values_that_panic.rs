use std::error::Error;
use std::fmt;
use std::panic::panic_any;

use leasehold::Job;

use crate::probe::*;

/// A value that somebody else's drop must survive.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bomb")
    }
}

impl Error for Bomb {}

conformance!(
    fn a_panic_with_a_value_that_panics_when_dropped_ends_the_attempt_and_not_the_thread(db: &mut Db) {
        let mut conn = migrated(db);
        let bad = probe("bad").enqueue(&mut conn).unwrap().id();
        let running = worker(db, |probe, lease| {
            if probe.text == "bad" {
                panic_any(Bomb);
            }
            lease.finish()
        })
        .start()
        .unwrap();
        eventually(SOON, "it is discarded", || running.counts().discarded == 1);
        assert_eq!(
            standing(db, bad),
            "discarded: panicked: with a value that is not a text"
        );
        probe("good").enqueue(&mut conn).unwrap();
        wait_completed(&running, 1);
    }
);

conformance!(
    fn an_error_that_panics_when_dropped_ends_the_attempt_and_not_the_thread(db: &mut Db) {
        let mut conn = migrated(db);
        let bad = probe("bad").enqueue(&mut conn).unwrap().id();
        let running = worker(db, |probe, lease| {
            if probe.text == "bad" {
                Err(Bomb)?;
            }
            lease.finish()
        })
        .start()
        .unwrap();
        eventually(SOON, "it is discarded", || running.counts().discarded == 1);
        assert_eq!(standing(db, bad), "discarded: a bomb");
        probe("good").enqueue(&mut conn).unwrap();
        wait_completed(&running, 1);
    }
);

conformance!(
    fn a_hook_that_panics_with_a_bomb_does_not_end_the_settler(db: &mut Db) {
        struct Bombs;
        impl leasehold::Hooks for Bombs {
            fn completed(&self, _: &leasehold::JobInfo<'_>) {
                panic_any(Bomb);
            }
        }
        let mut conn = migrated(db);
        let running = worker(db, |_, lease| lease.finish()).hooks(Bombs).start().unwrap();
        for _ in 0..2 {
            probe("good").enqueue(&mut conn).unwrap();
        }
        wait_completed(&running, 2);
        eventually(SOON, "no lease is left", || running.leases_held() == 0);
    }
);
