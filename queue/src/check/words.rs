//! What findings say.

use std::fmt;

use super::{Finding, Severity};

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Danger => "danger",
        })
    }
}

impl Finding {
    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::UnsafeSetting { .. } => Severity::Danger,
            Self::Setting {
                name: "idle_in_transaction_session_timeout",
                ..
            }
            | Self::SessionsHidden { .. }
            | Self::FreePages { .. } => Severity::Advice,
            _ => Severity::Warning,
        }
    }

    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::UnsafeSetting {
                name: "synchronous", ..
            } => "Open each connection with `PRAGMA synchronous = FULL`.",
            Self::UnsafeSetting { .. } => "Turn it on: in postgresql.conf, or where the role or the database sets it.",
            Self::Setting { name, .. } => setting_remedy(name),
            Self::AutovacuumOff { table: None } => "Turn autovacuum and track_counts on in postgresql.conf.",
            Self::AutovacuumOff { .. } => "Run `ALTER TABLE … RESET (autovacuum_enabled)`.",
            Self::Bloat { .. } => {
                "Run VACUUM on the table. If the rows stay dead, a transaction or a slot holds them; if they come back, give \
                 autovacuum more workers and a shorter autovacuum_naptime."
            }
            Self::OldTransaction { .. } => {
                "End it with `SELECT pg_terminate_backend(pid)`, and set idle_in_transaction_session_timeout for its role."
            }
            Self::PreparedTransaction { .. } => "Finish it with COMMIT PREPARED or ROLLBACK PREPARED.",
            Self::ReplicationSlot { .. } => {
                "Start its reader, or drop it with `SELECT pg_drop_replication_slot(name)` if nobody will read it again."
            }
            Self::Connections { .. } => "Make pools smaller, put a pooler between, or raise max_connections.",
            Self::SessionsHidden { .. } => "Check as a member of pg_read_all_stats: `GRANT pg_read_all_stats TO …`.",
            Self::Index { invalid: true, .. } => "Build it again with `REINDEX INDEX CONCURRENTLY`.",
            Self::Index { .. } => {
                "Create it again, as the migration does that made it (`leasehold::migrate` has the texts)."
            }
            Self::Clock { .. } => {
                "Synchronise the clocks. Leases go by the server's; run times given as an instant do not."
            }
            Self::LeasesExpired { locked_by: Some(_), .. } => {
                "End the session that has the row locked if it should not: the sweep takes the row when the lock is gone."
            }
            Self::LeasesExpired { .. } => {
                "Start a worker, for each worker sweeps all queues; if one runs, its log says why not."
            }
            Self::QueueUnserved { .. } => {
                "Start a worker that serves the queue, or move the jobs by enqueuing them to another one."
            }
            Self::ScheduleLate { .. } => {
                "Start a worker, for each worker fires all schedules; if one runs, its log says why not."
            }
            Self::JournalMode { .. } => "Run `PRAGMA journal_mode = WAL` once; a worker does when it opens the file.",
            Self::WalFile { .. } => {
                "A reader keeps it from being written back: end transactions that stay open, then run \
                 `PRAGMA wal_checkpoint(TRUNCATE)`."
            }
            Self::FreePages { .. } => "Run VACUUM while no worker runs, if the space is wanted.",
        }
    }
}

fn setting_remedy(name: &str) -> &'static str {
    match name {
        "idle_in_transaction_session_timeout" => {
            "Set it for the roles of your programs: a transaction that somebody forgot holds vacuum up. Workers set their own."
        }
        "default_transaction_isolation" => {
            "Set `read committed` for the role: at other levels an enqueue that meets a key may fail with a conflict. Workers \
             set their own."
        }
        _ => "Set plan_cache_mode to `auto` for the role: planning each statement anew costs more than running it.",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsafeSetting { name, value } => write!(f, "{name} is {value}: a crash may lose what was committed"),
            Self::Setting { name, value } => write!(f, "{name} is {value}"),
            Self::AutovacuumOff { table: None } => f.write_str("autovacuum is off"),
            Self::AutovacuumOff { table: Some(table) } => write!(f, "autovacuum is off for {table}"),
            Self::Bloat {
                table,
                dead,
                live,
                vacuumed,
            } => {
                write!(f, "{table} has {dead} dead rows beside {live} others, and was ")?;
                match vacuumed {
                    Some(ago) => write!(f, "vacuumed {} s ago", ago.as_secs()),
                    None => f.write_str("never vacuumed"),
                }
            }
            Self::OldTransaction { pid, age, application } => {
                let age = age.as_secs();
                write!(
                    f,
                    "session {pid} ({application:?}) has had a transaction open for {age} s, so dead rows stay"
                )
            }
            Self::PreparedTransaction { name, age } => {
                write!(
                    f,
                    "the transaction {name:?} was prepared {} s ago, so dead rows stay",
                    age.as_secs()
                )
            }
            Self::ReplicationSlot { name } => {
                write!(f, "nobody reads the replication slot {name:?}, which holds data for it")
            }
            Self::Connections { used, max } => write!(f, "{used} of {max} connections are used"),
            Self::SessionsHidden { sessions } => {
                write!(f, "{sessions} sessions of other roles cannot be looked at")
            }
            Self::Index { name, invalid: true } => write!(f, "the index {name} is invalid, so it is not used"),
            Self::Index { name, .. } => write!(f, "the index {name} is missing"),
            Self::Clock { ahead, behind } if ahead > behind => {
                write!(
                    f,
                    "the server's clock is {} ms ahead of this program's",
                    ahead.as_millis()
                )
            }
            Self::Clock { behind, .. } => {
                write!(
                    f,
                    "the server's clock is {} ms behind this program's",
                    behind.as_millis()
                )
            }
            Self::LeasesExpired {
                jobs,
                oldest,
                locked_by,
            } => {
                write!(
                    f,
                    "{jobs} leases have ended and were not taken back, the first {} s ago",
                    oldest.as_secs()
                )?;
                match locked_by {
                    Some(pid) => write!(f, "; session {pid} has a row locked"),
                    None => Ok(()),
                }
            }
            Self::QueueUnserved { queue } => {
                write!(f, "jobs are ready in the queue {queue:?}, which no live worker serves")
            }
            Self::ScheduleLate { name, by } => write!(f, "the schedule {name:?} was due {} s ago", by.as_secs()),
            Self::JournalMode { mode } => {
                write!(f, "journal_mode is {mode}: readers and the writer wait for each other")
            }
            Self::WalFile { bytes } => write!(f, "the write-ahead log has {bytes} bytes"),
            Self::FreePages { bytes } => write!(f, "{bytes} bytes of the file are free pages"),
        }
    }
}
