use std::thread;
use std::time::Duration;

use leasehold::{Backend, EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_tests::jobs::prepare;
use leasehold_tests::{TestDb, capture_log, conformance};
use serde::{Deserialize, Serialize};

/// Commits, and takes its time over it.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "slow-commit")]
struct SlowCommit {}

impl<C: Backend> Handler<C> for SlowCommit {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        lease.commit(|_| {
            // How long the closure takes is what is tested.
            thread::sleep(Duration::from_millis(1100));
            Ok(())
        })
    }
}

conformance!(
    #[skip(postgres, "its writers do not wait for each other")]
    fn a_commit_that_keeps_the_heartbeat_waiting_is_warned_of(db: &mut Db) {
        prepare(db);
        let log = capture_log();
        let options = EnqueueOptions::new().lease(Duration::from_secs(3));
        SlowCommit {}.enqueue_with(&mut db.connect(), &options).unwrap();
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<SlowCommit>();
        assert_eq!(worker.run_until_empty().unwrap().counts.completed, 1);
        let told = log.with("it held the write lock for");
        assert!(
            told.iter()
                .any(|record| record.message.contains("slow-commit") && record.message.contains("keep it below 1s")),
            "{told:?}"
        );
    }
);
