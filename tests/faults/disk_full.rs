//! A file system without room, under the whole database.

use std::path::Path;
use std::process::Command;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{App, SOON, Step, app};
use leasehold_tests::{eventually, skipped};

/// A file system of a few megabytes, gone with this.
struct Small(tempfile::TempDir);

impl Small {
    /// `None` where this may not be mounted.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(directory.path())
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// While nothing can be written, no job ends, none is lost, and the worker goes on by itself when there is room again.
#[test]
fn a_full_disk_is_waited_out() {
    let Some(small) = Small::mount() else {
        skipped(
            "a_full_disk_is_waited_out",
            "a small file system cannot be mounted: not root, or not Linux",
        );
        return;
    };
    let url = small.path().join("full.db").display().to_string();
    let mut conn = SqliteConnection::establish(&url).unwrap();
    conn.batch_execute("PRAGMA busy_timeout = 10000").unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn.batch_execute("CREATE TABLE effects (n bigint NOT NULL)").unwrap();
    let steps: Vec<Step> = (1..=4).map(Step::waiting).collect();
    Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
    let (app, remote) = app();
    let worker = Worker::<SqliteConnection, App>::new(&url, app).threads(4);
    let running = worker.register::<Step>().start().unwrap();
    let handlers: Vec<_> = steps.iter().map(|_| remote.begun()).collect();
    let filler = small.path().join("filler");
    // To the last byte: what is over is refused.
    let _ = std::fs::write(&filler, vec![0; 8 << 20]);
    handlers.into_iter().for_each(|handler| handler.go());
    for _ in &steps {
        let error = remote.ended().result.expect_err("there is no room for a commit");
        assert!(error.contains("full"), "{error}");
    }
    let ended = "SELECT count(*) FROM leasehold_finished_jobs";
    assert_eq!(number(&mut conn, ended), 0);
    std::fs::remove_file(&filler).unwrap();
    for _ in &steps {
        remote.begun().go();
    }
    eventually(SOON, "all are completed", || running.counts().completed == 4);
    assert_eq!(number(&mut conn, ended), 4);
    assert_eq!(number(&mut conn, "SELECT count(*) FROM effects"), 4);
}

fn number(conn: &mut SqliteConnection, query: &str) -> i64 {
    diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(&format!("({query})")))
        .get_result(conn)
        .unwrap()
}
