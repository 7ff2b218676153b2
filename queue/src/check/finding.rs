//! What can be found.

use std::time::Duration;

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// It could be better.
    Advice,
    /// It costs speed, or jobs wait.
    Warning,
    /// What was committed may be lost.
    Danger,
}

/// How something differs from what the migrations make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Difference {
    /// It is not there.
    Missing,
    /// It is another one.
    Changed,
    /// No migration makes it.
    Added,
}

/// What a [check](super::check) found. Its text says what; [`Finding::remedy`] what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The tables are not there, or not for this name.
    TablesMissing {
        /// The schema's name.
        schema: String,
    },
    /// Migrations of this program are not applied. The tables themselves were not looked at.
    MigrationsPending {
        /// Their versions.
        versions: Vec<String>,
    },
    /// Migrations of a newer program are applied. What the tables look like was not compared.
    MigrationsUnknown {
        /// Their versions.
        versions: Vec<String>,
    },
    /// The tables refuse a program as old as this one. They were not looked at.
    ProgramTooOld {
        /// The least [`PROGRAM`](crate::migrate::PROGRAM) that may run on them.
        minimum: i32,
    },
    /// Something of the queue's tables is not as the migrations make it.
    Drift {
        /// What: `table`, `column`, `constraint`, `index`, `function` or `trigger`.
        what: String,
        /// Its name, that of its table before it.
        name: String,
        /// How it differs.
        difference: Difference,
    },
    /// The server is older than the statements need.
    ServerVersion {
        /// Its version, as its number: 120018 is 12.18.
        version: i32,
        /// The least version.
        needed: i32,
    },
    /// Each transaction may run on another session of the server: a pooler in transaction mode sits between.
    TransactionPooler,
    /// Jobs are kept by a pause that has held for long.
    PausedForLong {
        /// What is paused: `all`, `queue` or `kind`.
        scope: String,
        /// Its name; empty for all.
        name: String,
        /// How long.
        since: Duration,
        /// Who asked for it.
        by: String,
        /// Why.
        reason: String,
    },
    /// A setting under which a crash may lose or tear what was committed.
    UnsafeSetting {
        /// Its name.
        name: &'static str,
        /// Its value, here.
        value: String,
    },
    /// A setting that costs speed or attempts.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value, here.
        value: String,
    },
    /// Autovacuum is off, for one table or for all.
    AutovacuumOff {
        /// The table; `None` for all.
        table: Option<String>,
    },
    /// A fifth of a table and more is dead rows.
    Bloat {
        /// The table.
        table: String,
        /// Its dead rows, by the statistics.
        dead: u64,
        /// Its other rows.
        live: u64,
        /// How long ago it was last vacuumed; `None` if never, as far as the statistics know.
        vacuumed: Option<Duration>,
    },
    /// A transaction that keeps vacuum from removing what died after its begin.
    OldTransaction {
        /// The process id of its session.
        pid: i32,
        /// How long it has been open.
        age: Duration,
        /// What the session calls itself.
        application: String,
    },
    /// A prepared transaction, which keeps vacuum from removing what died after it, and survives restarts.
    PreparedTransaction {
        /// Its name.
        name: String,
        /// How long ago it was prepared.
        age: Duration,
    },
    /// A replication slot that nobody reads and that holds rows or write-ahead log.
    ReplicationSlot {
        /// Its name.
        name: String,
    },
    /// Nine in ten of the connections that there may be are used.
    Connections {
        /// Whose limit it is: the `server`'s, the `database`'s or the `role`'s.
        of: &'static str,
        /// How many are.
        used: u64,
        /// How many there may be.
        max: u64,
    },
    /// The sessions of other roles cannot be seen: their transactions were not looked at.
    SessionsHidden {
        /// How many sessions.
        sessions: u64,
    },
    /// An index that a migration made is missing, or invalid.
    Index {
        /// Its name.
        name: String,
        /// It is there, and not used.
        invalid: bool,
    },
    /// The clocks of this program and of the server differ.
    Clock {
        /// How far the server's is ahead at the least.
        ahead: Duration,
        /// How far it is behind at the least.
        behind: Duration,
    },
    /// Leases have ended, and no worker has taken them back.
    LeasesExpired {
        /// How many, 1,000 at the most.
        jobs: u64,
        /// How long ago the oldest of them ended.
        oldest: Duration,
        /// The session that has one of the rows locked, so that it is skipped.
        locked_by: Option<i32>,
    },
    /// Jobs are ready in a queue that no live worker serves.
    QueueUnserved {
        /// The queue.
        queue: String,
    },
    /// Jobs of a kind are ready in a queue that is served, and no live worker has a handler for them.
    KindUnserved {
        /// The queue.
        queue: String,
        /// The kind.
        kind: String,
        /// The version of their payloads.
        version: i32,
    },
    /// A schedule is due, and no worker has fired it.
    ScheduleLate {
        /// Its name.
        name: String,
        /// Since when.
        by: Duration,
    },
    /// The file is not in WAL mode.
    JournalMode {
        /// Its mode.
        mode: String,
    },
    /// The write-ahead log has grown and is not written back.
    WalFile {
        /// Its size.
        bytes: u64,
    },
    /// Pages of the file are free, and stay so: it was larger once.
    FreePages {
        /// Their size.
        bytes: u64,
    },
}
