//! What findings say.

use std::fmt;

use super::{Difference, Finding, Severity};

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Danger => "danger",
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Changed => "is not as the migrations make it",
            Self::Added => "is of no migration",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TablesMissing { schema } => write!(f, "there are no tables under the name {schema:?}"),
            Self::MigrationsPending { versions } => write!(f, "not applied yet: {}", versions.join(", ")),
            Self::MigrationsUnknown { versions } => {
                write!(f, "a newer program has applied {}", versions.join(", "))
            }
            Self::ProgramTooOld { minimum } => {
                let ours = crate::migrate::PROGRAM;
                write!(
                    f,
                    "the tables need a program of level {minimum}, and this one has {ours}"
                )
            }
            Self::Drift { what, name, difference } => write!(f, "the {what} {name} {difference}"),
            Self::ServerVersion { version, needed } => {
                write!(f, "the server's version is {version}, and {needed} is needed")
            }
            Self::TransactionPooler => {
                f.write_str("a pooler in transaction mode sits between this program and the server")
            }
            Self::PausedForLong {
                scope,
                name,
                since,
                by,
                reason,
            } => {
                let hours = since.as_secs() / 3600;
                match scope.as_str() {
                    "all" => f.write_str("everything is paused")?,
                    _ => write!(f, "the {scope} {name:?} is paused")?,
                }
                write!(f, ", for {hours} hours, by {by:?}: {reason}")
            }
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
            Self::Connections { of, used, max } => write!(f, "{used} of {max} connections of the {of} are used"),
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
            Self::KindUnserved { queue, kind, version } => {
                write!(
                    f,
                    "jobs of the kind {kind:?}, version {version}, are ready in the queue {queue:?}, and no live worker there has a handler for them"
                )
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
