//! What findings are called, how bad they are, and what to do about them.

use super::{Difference, Finding, Severity};

impl Finding {
    /// A word for it that stays the same, for programs to go by: `old_transaction`.
    ///
    /// ```
    /// use leasehold::check::Finding;
    ///
    /// assert_eq!(Finding::TransactionPooler.name(), "transaction_pooler");
    /// ```
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::TablesMissing { .. } => "tables_missing",
            Self::MigrationsPending { .. } => "migrations_pending",
            Self::MigrationsUnknown { .. } => "migrations_unknown",
            Self::ProgramTooOld { .. } => "program_too_old",
            Self::Drift { .. } => "drift",
            Self::ServerVersion { .. } => "server_version",
            Self::TransactionPooler => "transaction_pooler",
            Self::PausedForLong { .. } => "paused_for_long",
            Self::UnsafeSetting { .. } => "unsafe_setting",
            Self::Setting { .. } => "setting",
            Self::AutovacuumOff { .. } => "autovacuum_off",
            Self::Bloat { .. } => "bloat",
            Self::OldTransaction { .. } => "old_transaction",
            Self::PreparedTransaction { .. } => "prepared_transaction",
            Self::ReplicationSlot { .. } => "replication_slot",
            Self::Connections { .. } => "connections",
            Self::SessionsHidden { .. } => "sessions_hidden",
            Self::Index { .. } => "index",
            Self::Clock { .. } => "clock",
            Self::LeasesExpired { .. } => "leases_expired",
            Self::QueueUnserved { .. } => "queue_unserved",
            Self::KindUnserved { .. } => "kind_unserved",
            Self::ScheduleLate { .. } => "schedule_late",
            Self::JournalMode { .. } => "journal_mode",
            Self::WalFile { .. } => "wal_file",
            Self::FreePages { .. } => "free_pages",
        }
    }

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
            | Self::TransactionPooler
            | Self::MigrationsUnknown { .. }
            | Self::Drift {
                difference: Difference::Added,
                ..
            }
            | Self::FreePages { .. } => Severity::Advice,
            _ => Severity::Warning,
        }
    }

    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::TablesMissing { .. } | Self::MigrationsPending { .. } => {
                "Run the migrations: `leasehold migrate up`, `leasehold::migrate` in the program, or the texts that \
                 `Migrations::sql` gives."
            }
            Self::MigrationsUnknown { .. } => "Check with that program: it knows what the tables should be.",
            Self::ProgramTooOld { .. } => "Update the program, for it is refused at its start.",
            Self::Drift {
                difference: Difference::Added,
                ..
            } => "Remove it if nobody needs it: it costs each write, and a later migration may meet it.",
            Self::Drift { .. } => {
                "Put it back as the migration makes it (`Migrations::sql` gives the texts): statements and the fence rely on it."
            }
            Self::ServerVersion { .. } => "Upgrade the server: workers refuse to start on this one.",
            Self::TransactionPooler => {
                "Tell each worker so with `Worker::transaction_pooler`, and give its role the settings of `RoleNames::pooled_login`; \
                 or connect workers to the server itself."
            }
            Self::PausedForLong { .. } => {
                "Resume it (`leasehold resume`, or `manage::resume`) if it was forgotten: its jobs wait."
            }
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
            Self::Connections { .. } => {
                "Make pools smaller, put a pooler between, or raise the limit: max_connections, or what ALTER ROLE and ALTER DATABASE set."
            }
            Self::SessionsHidden { .. } => "Check as a member of pg_read_all_stats: `GRANT pg_read_all_stats TO …`.",
            Self::Index { invalid: true, .. } => "Build it again with `REINDEX INDEX CONCURRENTLY`.",
            Self::Index { .. } => {
                "Create it again, as the migration does that made it (`Migrations::sql` gives the texts)."
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
                "Start a worker that serves the queue; or cancel the jobs, and enqueue them to another one."
            }
            Self::KindUnserved { .. } => {
                "Register the kind on a worker of the queue, in the version that is enqueued; or cancel the jobs if the kind is mistyped."
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
        "lock_timeout" | "statement_timeout" | "transaction_timeout" => {
            "Give the role some seconds, or no limit: what only waits for another commit is ended, and attempts fail for nothing."
        }
        "idle_session_timeout" => {
            "Set it to 0 for the roles of workers: their connections rest while nothing is to be done."
        }
        _ => "Set plan_cache_mode to `auto` for the role: planning each statement anew costs more than running it.",
    }
}
