//! A lease, its handler's thread, and the heartbeat that may time it out.

use leasehold::Refusal;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::in_every_order;
use crate::lease::Standing;

const LOST: Refusal = Refusal::Lost { generation: 2 };

/// Then a lease that is not lost has run out, so one of both is told in any case.
fn always() -> bool {
    true
}

/// The threads that run jobs, and those that are stuck and replaced, as a worker counts them.
struct Threads {
    running: AtomicUsize,
    stuck: AtomicUsize,
}

/// As the heartbeat does; whether the job is its to settle.
fn time_out(standing: &Standing, threads: &Threads) -> bool {
    if !standing.time_out() {
        return false;
    }
    let settles = standing.mark_lost(Refusal::TimedOut);
    threads.stuck.fetch_add(1, Ordering::AcqRel);
    if standing.replace() {
        threads.running.fetch_add(1, Ordering::AcqRel);
    } else {
        threads.stuck.fetch_sub(1, Ordering::AcqRel);
    }
    settles
}

/// As a thread does whose handler has come back.
fn come_back(standing: &Standing, threads: &Threads) {
    standing.mark_returned();
    if standing.is_replaced() {
        threads.stuck.fetch_sub(1, Ordering::AcqRel);
        threads.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn a_place_is_neither_left_empty_nor_given_twice() {
    in_every_order("a_place_is_neither_left_empty_nor_given_twice", || {
        let standing = Arc::new(Standing::new());
        let threads = Arc::new(Threads {
            running: AtomicUsize::new(1),
            stuck: AtomicUsize::new(0),
        });
        let beats = [(); 2].map(|()| {
            let (standing, threads) = (standing.clone(), threads.clone());
            thread::spawn(move || time_out(&standing, &threads))
        });
        come_back(&standing, &threads);
        let settled = beats.map(|beat| beat.join().unwrap());
        assert!(settled.iter().filter(|settled| **settled).count() <= 1);
        assert_eq!(threads.running.load(Ordering::Acquire), 1);
        assert_eq!(threads.stuck.load(Ordering::Acquire), 0);
    });
}

#[test]
fn whoever_sees_a_lease_lost_sees_why_and_it_is_news_to_one() {
    in_every_order("whoever_sees_a_lease_lost_sees_why_and_it_is_news_to_one", || {
        let standing = Arc::new(Standing::new());
        let tellers = [LOST, Refusal::Missing].map(|refusal| {
            let standing = standing.clone();
            thread::spawn(move || {
                let news = standing.mark_lost(refusal);
                (news, standing.lost(always))
            })
        });
        let seen = standing.lost(always);
        let told = tellers.map(|teller| teller.join().unwrap());
        assert_eq!(told.iter().filter(|(news, _)| *news).count(), 1);
        let why = standing.lost(always);
        assert!(told.iter().all(|(_, lost)| *lost == why));
        assert!(matches!(why, Some(LOST | Refusal::Missing)));
        assert!(seen == Some(Refusal::Expired) || seen == why);
    });
}

#[test]
fn a_committed_lease_is_lost_to_nobody_afterwards() {
    in_every_order("a_committed_lease_is_lost_to_nobody_afterwards", || {
        let standing = Arc::new(Standing::new());
        let heartbeat = {
            let standing = standing.clone();
            thread::spawn(move || standing.mark_lost(LOST))
        };
        standing.mark_committed();
        assert!(standing.is_committed() && standing.lost(always).is_none());
        heartbeat.join().unwrap();
        assert!(standing.is_committed() && standing.lost(always).is_none());
    });
}
