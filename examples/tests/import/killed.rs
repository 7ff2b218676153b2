//! Processes that end in the middle.

use std::time::Duration;

use leasehold::{AsBackend, Schema, testing};
use leasehold_tests::{TestDb, conformance, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Folder, generated_records, records, run, said, start};

const FILES: usize = 100;
const ROWS: usize = 200;

fn imported(db: &mut impl TestDb) -> i64 {
    db.integer("SELECT count(*) FROM imported_files")
}

/// Waits until one more file is imported than before.
fn wait_for_more(db: &mut impl TestDb) {
    let before = imported(db);
    eventually(Duration::from_secs(30), "a file is imported", || imported(db) > before);
}

/// The killed process's leases run out at once, so that the test need not wait for it. Its server session may still commit
/// one of them, so none is expected.
fn expire_leases<D: TestDb<Connection: AsBackend>>(db: &mut D) {
    let running = db.texts("SELECT id FROM leasehold.jobs WHERE state = 'running'");
    for id in running.into_iter().flatten() {
        let id = id.parse().expect("an id is a number");
        testing::expire_lease(&mut db.connect(), &Schema::default(), id).expect("the lease can be changed");
    }
}

conformance! {
    fn what_was_killed_in_the_middle_goes_on_where_it_was(db: &mut Db) {
        let (nothing, folder) = (Folder::new(), Folder::generated(FILES, ROWS));
        assert_eq!(run(db, &[nothing.path()]).totals(), [0, 0, 0, 0, 0]);
        for _ in 0..4 {
            let mut program = start(db, &[folder.path()]);
            wait_for_more(db);
            program.kill().expect("the program can be killed");
            program.wait().expect("the program ends");
            assert!(imported(db) < FILES as i64, "it was killed in the middle");
            expire_leases(db);
        }
        let last = run(db, &[folder.path()]);
        let [_, newly, already_there, ..] = last.totals();
        let expected = [FILES as i64, newly, already_there, 0, (FILES * ROWS) as i64];
        assert_eq!((last.status.code(), last.totals()), (Some(0), expected), "{last:?}");
        assert!(already_there >= 4 && newly >= 1, "{last:?}");
        assert_eq!(records(db), generated_records(FILES, ROWS));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state <> 'completed'"), 0);
    }
}

conformance! {
    fn a_signal_ends_it_gently_and_the_next_run_goes_on(db: &mut Db) {
        let (nothing, folder) = (Folder::new(), Folder::generated(FILES, ROWS));
        run(db, &[nothing.path()]);
        let program = start(db, &[folder.path()]);
        wait_for_more(db);
        kill_process(Pid::from_child(&program), Signal::TERM).expect("the program takes signals");
        let stopped = said(program);
        let [_, _, _, failed, _] = stopped.totals();
        assert_eq!(stopped.status.code(), Some(130), "{stopped:?}");
        assert!(failed >= 1 && stopped.output.contains("not yet imported: run this again"), "{stopped:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running' OR attempt > 0"), 0);

        let last = run(db, &[folder.path()]);
        assert_eq!((last.status.code(), last.totals()[4]), (Some(0), (FILES * ROWS) as i64), "{last:?}");
        assert_eq!(records(db), generated_records(FILES, ROWS));
    }
}

conformance! {
    fn a_file_that_changed_between_two_runs_is_imported_as_it_is_now(db: &mut Db) {
        let (nothing, folder) = (Folder::new(), Folder::generated(FILES, ROWS));
        run(db, &[nothing.path()]);
        let mut program = start(db, &[folder.path()]);
        wait_for_more(db);
        program.kill().expect("the program can be killed");
        program.wait().expect("the program ends");
        expire_leases(db);

        // Jobs of the first run with the old content are left for most of them.
        let changed = Folder::generated(FILES, 1);
        for file in 0..FILES {
            let name = format!("{file:04}.csv");
            let content = std::fs::read(changed.path().join(&name)).unwrap();
            folder.write(&name, content);
        }
        let last = run(db, &[folder.path()]);
        assert_eq!((last.status.code(), last.totals()), (Some(0), [FILES as i64, FILES as i64, 0, 0, FILES as i64]), "{last:?}");
        assert_eq!(records(db), generated_records(FILES, 1));
    }
}
