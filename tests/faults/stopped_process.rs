use std::time::Duration;

use leasehold::{Backend, EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, SOON, Step, app, job, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};
use rustix::process::Signal;

use crate::PROGRAM;

/// Whether the write lock of SQLite is free. PostgreSQL has none.
fn may_write<C: Backend>(conn: &mut C) -> bool {
    C::NAME != "sqlite"
        || conn
            .batch_execute("PRAGMA busy_timeout = 20; BEGIN IMMEDIATE; ROLLBACK")
            .is_ok()
}

conformance!(
    fn a_process_that_was_stopped_past_its_lease_cannot_commit(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(Duration::from_secs(2));
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        let mut late = WorkerProcess::start(PROGRAM, "serve", &db.url());
        late.says("begun 1 1");
        late.stop(|| may_write(&mut db.connect()));
        // The lease ends by the database's clock, and another takes the job over.
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).sweep_interval(Duration::from_millis(50));
        let running = worker.register::<Step>().start().unwrap();
        let owner = remote.begun();
        assert_eq!((owner.id, owner.attempt, owner.generation), (id, 2, 3));
        // While the job runs under its new owner, so that its state alone would let the late one through.
        late.signal(Signal::CONT);
        late.go(1);
        let said = late.line();
        assert!(said.starts_with("ended 1 the lease "), "{said}");
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        owner.go();
        assert_eq!(remote.ended().result, Ok(()));
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert_eq!(job(&mut conn, id).generation, 3);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);

conformance!(
    /// The stopped process comes back inside its lease by its own clock, as a stopped machine does whose clock stood
    /// still: only the database can refuse it.
    fn a_lease_taken_away_behind_the_workers_back_is_refused_by_the_database(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let mut late = WorkerProcess::start(PROGRAM, "serve", &db.url());
        late.says("begun 1 1");
        late.stop(|| may_write(&mut db.connect()));
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let (app, remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).sweep_interval(Duration::from_millis(50));
        let running = worker.register::<Step>().start().unwrap();
        let owner = remote.begun();
        late.signal(Signal::CONT);
        late.go(1);
        late.says("ended 1 the lease was lost: the job is at generation 3 now");
        owner.go();
        eventually(SOON, "it is completed", || running.counts().completed == 1);
        assert_eq!(job(&mut conn, id).attempt, 2);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);
