//! `PgBouncer` in transaction mode between workers and server.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use diesel::PgConnection;
use diesel::prelude::*;
use leasehold::check::{Finding, Thresholds, check_at};
use leasehold::{EnqueueOptions, Job, Schema, Worker};
use leasehold_tests::jobs::{App, Note, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, eventually, postgres, skipped};

/// A pooler of the test's own: a socket in a directory that goes with it.
struct Pooler {
    process: Child,
    directory: tempfile::TempDir,
    database: String,
}

impl Pooler {
    /// With two connections to the server of `url` for everybody; `None` where it is not installed, or the server is
    /// not on a socket.
    fn start(url: &str) -> Option<Self> {
        Command::new("pgbouncer").arg("--version").output().ok()?;
        let (rest, host) = url.split_once("host=/")?;
        let host = format!("/{}", host.split('&').next().unwrap_or_default());
        let database = rest.rsplit('/').next().and_then(|name| name.split('?').next());
        let directory = tempfile::Builder::new()
            .prefix("leasehold-")
            .tempdir_in("/tmp")
            .unwrap();
        let path = directory.path().display();
        let settings = format!(
            "[databases]\n* = host={host} user=postgres\n[pgbouncer]\nunix_socket_dir = {path}\nlisten_port = 6432\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nignore_startup_parameters = extra_float_digits\n",
        );
        let file = directory.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut command = Command::new("pgbouncer");
        // It refuses to run as root, as the server does, whose user may open the server's socket.
        if rustix::process::geteuid().is_root() {
            let owner = std::fs::metadata(&host).expect("the server's directory");
            let (uid, gid) = (
                std::os::unix::fs::MetadataExt::uid(&owner),
                std::os::unix::fs::MetadataExt::gid(&owner),
            );
            chown(directory.path(), Some(uid), Some(gid)).unwrap();
            command.uid(uid).gid(gid);
        }
        let process = command.arg("--quiet").arg(&file).stderr(Stdio::null()).spawn().unwrap();
        Some(Self {
            process,
            database: database.expect("a database").to_owned(),
            directory,
        })
    }

    fn url(&self) -> String {
        let directory = self.directory.path().display();
        format!("postgres://postgres@/{}?host={directory}&port=6432", self.database)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// More connections than the pooler has to give, and none keeps a session: no setting leaks, no statement is taken for
/// another's, and what is enqueued is found by polling.
#[test]
fn workers_behind_a_pooler_in_transaction_mode_do_their_jobs_once() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let Some(pooler) = Pooler::start(&db.url()) else {
        skipped(
            "workers_behind_a_pooler_in_transaction_mode_do_their_jobs_once",
            "PgBouncer is not installed (Debian: the package pgbouncer), or the server is not on a unix socket",
        );
        return;
    };
    eventually(SOON, "the pooler takes connections", || {
        PgConnection::establish(&pooler.url()).is_ok()
    });
    let notes: Vec<Note> = (1..=200).map(|n| Note { n }).collect();
    Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
    let steps: Vec<Step> = (201..=220).map(|n| Step::now(n, Then::FailUntil(2))).collect();
    Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new()).unwrap();
    let workers = [(); 2].map(|()| {
        let (app, remote) = app();
        let worker = Worker::<PgConnection, App>::new(pooler.url(), app)
            .threads(4)
            .poll_interval(Duration::from_millis(20))
            .transaction_pooler();
        (worker.register::<Note>().register::<Step>().start().unwrap(), remote)
    });
    eventually(SOON, "all are done", || {
        db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'") == 220
    });
    // The pooler's sessions are the same for all: whoever comes next finds none of our settings.
    Note { n: 221 }.enqueue(&mut conn).unwrap();
    eventually(SOON, "what comes later is polled for", || {
        db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'") == 221
    });
    assert_eq!(db.integer("SELECT count(*) FROM effects"), 221);
    assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 221);
    for (running, _remote) in workers {
        assert_eq!(running.counts().lost, 0);
        running.shutdown(SOON);
    }
    let mut next = PgConnection::establish(&pooler.url()).unwrap();
    for setting in [
        "idle_in_transaction_session_timeout",
        "plan_cache_mode",
        "synchronous_commit",
        "lock_timeout",
    ] {
        let leaked = format!("SELECT count(*) FROM pg_settings WHERE name = '{setting}' AND setting <> reset_val");
        let leaked: i64 = diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(&format!("({leaked})")))
            .get_result(&mut next)
            .unwrap();
        assert_eq!(leaked, 0, "{setting}");
    }
}

#[test]
fn a_check_through_a_pooler_in_transaction_mode_works_and_finds_it() {
    let mut db = postgres::database();
    prepare(&mut db);
    let Some(pooler) = Pooler::start(&db.url()) else {
        skipped(
            "a_check_through_a_pooler_in_transaction_mode_works_and_finds_it",
            "PgBouncer is not installed (Debian: the package pgbouncer), or the server is not on a unix socket",
        );
        return;
    };
    eventually(SOON, "the pooler takes connections", || {
        PgConnection::establish(&pooler.url()).is_ok()
    });
    let (schema, thresholds) = (Schema::default(), Thresholds::default());
    for (url, expected) in [(pooler.url(), true), (db.url(), false)] {
        let findings = check_at::<PgConnection>(&url, &schema, &thresholds).unwrap();
        assert_eq!(findings.contains(&Finding::TransactionPooler), expected, "{findings:?}");
    }
    // Others use it, too.
    let mut others = [(); 2].map(|()| PgConnection::establish(&pooler.url()).unwrap());
    for other in &mut others {
        diesel::sql_query("SELECT 1").execute(other).unwrap();
    }
    let findings = check_at::<PgConnection>(&pooler.url(), &schema, &thresholds).unwrap();
    assert!(findings.contains(&Finding::TransactionPooler), "{findings:?}");
}
