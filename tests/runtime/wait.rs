use std::time::{Duration, Instant};

use leasehold::inspect::{self, State};
use leasehold::{Job, Schema, Worker};
use leasehold_tests::jobs::{App, Note, SOON, Step, app, claim_and_die, finish, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn a_waiter_is_woken_by_the_end_of_its_job(db: &mut Db) {
        let mut conn = prepare(db);
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .register::<Step>()
            .start()
            .unwrap();
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let begun = remote.begun();
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| inspect::wait_for(&mut conn, &Schema::default(), id, SOON).unwrap());
            let since = Instant::now();
            eventually(SOON, "some looks", || since.elapsed() > Duration::from_millis(100));
            assert!(!wait.is_finished());
            begun.go();
            assert_eq!(wait.join().unwrap().state, State::Completed);
        });
        drop(running);
    }
);

conformance!(
    fn what_another_process_ends_is_found_by_looking(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let (_, fence) = claim_and_die::<Note, _>(&mut conn, true);
        let mut waits = db.connect();
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| inspect::wait_for(&mut waits, &Schema::default(), id, SOON).unwrap());
            assert!(finish(&mut conn, &fence));
            assert_eq!(wait.join().unwrap().state, State::Completed);
        });
    }
);
