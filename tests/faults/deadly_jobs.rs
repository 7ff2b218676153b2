use leasehold::{EnqueueOptions, Job};
use leasehold_tests::jobs::{Deadly, Death, SOON, Work, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};

use crate::PROGRAM;

const DEATHS: [Death; 5] = [
    Death::Abort,
    Death::DoublePanic,
    Death::StackOverflow,
    Death::OutOfMemory,
    Death::Exit,
];

conformance!(
    /// A process that starts again whenever it ends, as a supervisor has it, and jobs that end it, each in another way. Each is
    /// begun as often as it may be and discarded with its reason, and what runs beside them is done.
    fn jobs_that_take_their_process_along_are_discarded_and_their_neighbours_are_done(db: &mut Db) {
        let mut conn = prepare(db);
        let deadly = DEATHS.map(|death| Deadly { death });
        Deadly::enqueue_all(&deadly, &mut conn, &EnqueueOptions::new()).unwrap();
        let others: Vec<Work> = (1..=50).map(|n| Work { n }).collect();
        Work::enqueue_all(&others, &mut conn, &EnqueueOptions::new()).unwrap();
        let mut starts = 0;
        while db.integer("SELECT count(*) FROM leasehold.jobs") > 0 {
            assert!(starts < 100, "the jobs end their process again and again");
            starts += 1;
            let mut process = WorkerProcess::start(PROGRAM, "serve", &db.url());
            eventually(SOON, "it has ended, or there is nothing left", || {
                process.has_ended() || db.integer("SELECT count(*) FROM leasehold.jobs") == 0
            });
        }
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 50);
        let discarded =
            "SELECT kind || ' ' || attempt || ' ' || reason FROM leasehold.finished_jobs WHERE state = 'discarded'";
        assert_eq!(db.texts(discarded), vec![Some("deadly 2 lease expired".to_owned()); 5]);
        let errors = "SELECT cause FROM leasehold.job_errors WHERE job_id IN (SELECT id FROM leasehold.finished_jobs WHERE kind = 'deadly')";
        assert_eq!(db.texts(errors), vec![Some("lease expired".to_owned()); 10]);
    }
);
