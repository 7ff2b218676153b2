use std::time::Duration;

use leasehold::{Job, Worker};
use leasehold_tests::jobs::{App, Note, SOON, Step, app, claim_and_die, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn a_job_held_under_the_name_of_a_living_worker_comes_back_when_its_lease_ends(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).sweep_interval(Duration::from_millis(20));
        let running = worker.register::<Step>().start().unwrap();
        eventually(SOON, "it shows itself", || {
            db.integer("SELECT count(*) FROM leasehold.workers") == 1
        });
        db.sql("UPDATE leasehold.jobs SET worker = (SELECT id FROM leasehold.workers)");
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let handler = remote.begun();
        assert_eq!((handler.id, handler.attempt), (id, 2));
        handler.go();
        eventually(SOON, "it is completed", || running.counts().completed == 1);
    }
);

conformance!(
    /// It shows itself again each ten seconds; nothing hangs on it meanwhile.
    fn a_worker_whose_row_is_gone_works_on_and_shows_itself_again(db: &mut Db) {
        let mut conn = prepare(db);
        let shown = "SELECT count(*) FROM leasehold.workers";
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).sweep_interval(Duration::from_millis(20));
        let running = worker.register::<Step>().register::<Note>().start().unwrap();
        let handler = remote.begun();
        eventually(SOON, "it shows itself", || db.integer(shown) == 1);
        db.sql("DELETE FROM leasehold.workers");
        Note { n: 2 }.enqueue(&mut conn).unwrap();
        eventually(SOON, "it claims", || running.counts().completed == 1);
        handler.go();
        eventually(SOON, "both are completed", || running.counts().completed == 2);
        assert_eq!(job(&mut conn, id).generation, 1);
        eventually(SOON, "it shows itself again", || db.integer(shown) == 1);
    }
);
