//! Many processes at once, all of them ended again and again.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use leasehold_tests::{TestDb, conformance, eventually};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::program::{Folder, command, generated_records, records, run, said, start};

const FILES: usize = 300;
const ROWS: usize = 300;
const PROCESSES: u64 = 4;
const KILLS: u64 = 30;
/// Three times the lease of the program's jobs.
const STOPPED: Duration = Duration::from_secs(30);

/// Starts the program again and again and kills it after a random time, then lets it run to its end.
fn killed_again_and_again(url: &str, folder: &Path, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..KILLS {
        let mut program = command(url, &[folder]).spawn().expect("import starts");
        // At any instant: while it looks at the files, enqueues, claims, reads or commits.
        thread::sleep(Duration::from_millis(random.u64(1..250)));
        program.kill().expect("the program can be killed");
        program.wait().expect("the program ends");
    }
    let last = said(command(url, &[folder]).spawn().expect("import starts"));
    assert_eq!(last.status.code(), Some(0), "seed {seed}: {last:?}");
}

/// Stops the process, at an instant at which it does not hold up every other writer: SQLite has one write lock, and a
/// process that is stopped with it stops the database.
fn stop<D: TestDb>(db: &D, process: Pid) {
    eventually(
        Duration::from_secs(60),
        "it is stopped outside of a transaction",
        || {
            kill_process(process, Signal::STOP).expect("the program takes signals");
            // The signal is sent, and its threads go on for a moment.
            waitpid(Some(process), WaitOptions::UNTRACED).expect("the program stops");
            let free = D::BACKEND != "sqlite" || may_write(&mut db.connect());
            if !free {
                kill_process(process, Signal::CONT).expect("the program takes signals");
            }
            free
        },
    );
}

/// Whether the write lock of SQLite is free.
fn may_write(conn: &mut impl SimpleConnection) -> bool {
    conn.batch_execute("PRAGMA busy_timeout = 20; BEGIN IMMEDIATE; ROLLBACK")
        .is_ok()
}

conformance! {
    fn four_processes_killed_thirty_times_each_and_one_stopped_import_each_row_once(db: &mut Db) {
        let (nothing, folder) = (Folder::new(), Folder::generated(FILES, ROWS));
        run(db, &[nothing.path()]);
        let late = start(db, &[folder.path()]);
        eventually(Duration::from_secs(60), "it has begun", || {
            db.integer("SELECT count(*) FROM leasehold.jobs WHERE state = 'running'") > 0
        });
        stop(db, Pid::from_child(&late));
        let stopped_at = Instant::now();

        let url = db.url();
        let first_seed = fastrand::u64(..);
        thread::scope(|scope| {
            for process in 0..PROCESSES {
                let (url, folder) = (&url, folder.path());
                scope.spawn(move || killed_again_and_again(url, folder, first_seed.wrapping_add(process)));
            }
        });
        assert_eq!(records(db), generated_records(FILES, ROWS), "seed {first_seed}");

        // The lease is what is tested here, so it must really be outlived.
        thread::sleep(STOPPED.saturating_sub(stopped_at.elapsed()));
        kill_process(Pid::from_child(&late), Signal::CONT).expect("the program takes signals");
        let late = said(late);
        assert_eq!(late.status.code(), Some(0), "seed {first_seed}: {late:?}");
        assert_eq!(records(db), generated_records(FILES, ROWS), "seed {first_seed}");
        assert_eq!(db.integer("SELECT count(*) FROM imported_files"), FILES as i64);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state <> 'completed'"), 0);
    }
}
