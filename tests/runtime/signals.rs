use leasehold::Job;
use leasehold_tests::jobs::{Note, SOON, Step, Then, job, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};
use rustix::process::Signal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold-test-worker");

/// What it logs at the first signal.
const GENTLY: &str = "claiming nothing more";

conformance!(
    fn the_first_signal_waits_for_running_handlers(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let mut process = WorkerProcess::start(PROGRAM, "drain", &db.url());
        process.says("begun 1 1");
        process.signal(Signal::TERM);
        process.logs(GENTLY);
        let left = Note { n: 2 }.enqueue(&mut conn).unwrap().id();
        process.go(1);
        process.says("ended 1 committed");
        // Interrupted, whatever it has done by then.
        assert_eq!(process.wait().code(), Some(130));
        assert_eq!(job(&mut conn, id).state.as_str(), "completed");
        assert_eq!(job(&mut conn, left).attempt, 0);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.workers"), 0);
    }
);

conformance!(
    fn the_second_signal_fences_them_and_puts_their_jobs_back(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let mut process = WorkerProcess::start(PROGRAM, "drain", &db.url());
        process.says("begun 1 1");
        process.signal(Signal::INT);
        process.logs(GENTLY);
        process.signal(Signal::TERM);
        assert_eq!(process.wait().code(), Some(130));
        let put_back = job(&mut conn, id);
        assert_eq!(
            (put_back.state.as_str(), put_back.attempt, put_back.generation),
            ("ready", 0, 2)
        );
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
    }
);

conformance!(
    fn a_signal_ends_a_service_with_its_report(db: &mut Db) {
        let mut conn = prepare(db);
        let mut process = WorkerProcess::start(PROGRAM, "serve", &db.url());
        Step::waiting(1).enqueue(&mut conn).unwrap();
        process.says("begun 1 1");
        process.signal(Signal::TERM);
        process.logs(GENTLY);
        process.go(1);
        process.says("ended 1 committed");
        process.says("stopped 1 0 0");
        assert_eq!(process.wait().code(), Some(0));
    }
);

conformance!(
    fn the_exit_code_tells_how_a_batch_went(db: &mut Db) {
        let mut conn = prepare(db);
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        let code = |url: &str| WorkerProcess::start(PROGRAM, "drain", url).wait().code();
        assert_eq!(code(&db.url()), Some(0));
        Step::now(2, Then::Discard).enqueue(&mut conn).unwrap();
        assert_eq!(code(&db.url()), Some(1));
        assert_eq!(code(&db.url()), Some(0));
        eventually(SOON, "nobody is left", || {
            db.integer("SELECT count(*) FROM leasehold.workers") == 0
        });
    }
);
