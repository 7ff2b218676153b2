//! What only idle threads are given, while the line of claimed jobs never runs out by itself.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use leasehold::selected::Answer;
use leasehold::{EnqueueOptions, Job};
use leasehold_tests::jobs::{SOON, claim_and_die, prepare};
use leasehold_tests::{Over, TestDb, conformance, eventually};

use super::job::{Book, First, One, all_are_done, feed};
use super::{Claims, worker};

fn one(n: i64) -> One {
    One {
        n,
        first: First::Finishes,
        takes: Duration::ZERO,
    }
}

conformance!(
    fn jobs_that_lost_their_owner_or_were_handed_over_begin_while_there_is_a_backlog(db: &mut Db) {
        let mut conn = prepare(db);
        one(0).enqueue(&mut conn).unwrap();
        let (suspect, _) = claim_and_die::<One, _>(&mut conn, false);
        let (book, over) = (Book::default(), AtomicBool::new(false));
        let mut feeder = db.connect();
        let running = worker::<Connection>(&db.url(), &book, 2, Claims::Fixed(40));
        let ended = std::thread::scope(|scope| {
            let _over = Over(&over);
            scope.spawn(|| feed(&mut feeder, Duration::from_millis(5), &over));
            eventually(SOON, "the backlog is worked off", || running.counts().completed > 100);
            db.set_time("leasehold.jobs", "lease_until", -1, &format!("id = {}", suspect.id));
            // Behind all of the backlog, so that the worker does not claim it by itself.
            let last = EnqueueOptions::new().priority(-100);
            let id = one(1).enqueue_with(&mut conn, &last).unwrap().id();
            for selected in running.claim_selected([id]).unwrap() {
                match selected.answer {
                    Answer::Claimed(job) => job.hand_over(),
                    other => panic!("{other}"),
                }
            }
            all_are_done(&book, &[0, 1])
        });
        assert_eq!(ended, Ok(()));
    }
);
