-- The tables of migrations/postgres, for SQLite. Times are milliseconds since 1970 UTC, booleans 0 and 1, tokens
-- hyphenated UUIDs. STRICT, because a counter beyond 64 bits would otherwise turn into a REAL without a word.
CREATE TABLE leasehold_jobs (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    queue               TEXT NOT NULL CHECK (length(CAST(queue AS BLOB)) BETWEEN 1 AND 128),
    kind                TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) BETWEEN 1 AND 128),
    version             INTEGER NOT NULL DEFAULT 1 CHECK (version BETWEEN 1 AND 2147483647),
    payload             TEXT NOT NULL CHECK (json_valid(payload)),
    state               TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'running')),
    priority            INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    run_at              INTEGER NOT NULL,
    -- Ready, but run_at is still to come. Such rows are outside the claim's index: they cost a claim nothing.
    scheduled           INTEGER NOT NULL DEFAULT 0 CHECK (scheduled IN (0, 1)),
    -- Ready, but something else than time keeps it: a limit that many jobs share, or jobs that have to end first.
    -- Outside the claim's index, too.
    blocked_by          TEXT CHECK (blocked_by IN ('limit', 'jobs')),
    -- What the limits of the kind count by, and the place among those that wait for them (higher ones first).
    limit_key           TEXT CHECK (length(CAST(limit_key AS BLOB)) <= 128),
    limit_rank          INTEGER NOT NULL DEFAULT 0,
    -- After this instant it is discarded instead of run.
    expires_at          INTEGER,
    batch_id            INTEGER,
    -- Other jobs may wait for the end of this one.
    awaited             INTEGER NOT NULL DEFAULT 0 CHECK (awaited IN (0, 1)),
    attempt             INTEGER NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 2147483647),
    max_attempts        INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 2147483647),
    -- The fence: generation (never reset) and lease_token (kept when the lease ends, so a lost answer can be resolved).
    generation          INTEGER NOT NULL DEFAULT 0 CHECK (generation BETWEEN 0 AND 9223372036854775806),
    lease_token         TEXT,
    lease_ms            INTEGER NOT NULL CHECK (lease_ms BETWEEN 1 AND 31536000000),
    lease_until         INTEGER,
    -- Who holds the lease, for people to look at; recovery goes by lease_until alone.
    worker              TEXT,
    -- Whether a handler has begun on this lease. One that was only prefetched gets its attempt back.
    begun               INTEGER NOT NULL DEFAULT 0 CHECK (begun IN (0, 1)),
    cancel_requested_at INTEGER,
    idempotency_key     TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))) CHECK (length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 255),
    unique_key          TEXT,
    -- The states in which it keeps its unique key (unique_keys.states), for when it is requeued and takes the key again.
    unique_states       INTEGER NOT NULL DEFAULT 3 CHECK (unique_states BETWEEN 1 AND 31),
    created_at          INTEGER NOT NULL,
    CHECK (state <> 'running' OR (worker IS NOT NULL AND lease_token IS NOT NULL AND lease_until IS NOT NULL)),
    CHECK (state = 'running' OR worker IS NULL),
    CHECK (scheduled = 0 OR state = 'ready'),
    CHECK (blocked_by IS NULL OR (state = 'ready' AND scheduled = 0))
) STRICT;

-- What a claim reads, in the order in which it takes: a seek for each (queue, kind, version) that the program serves.
CREATE INDEX leasehold_jobs_claim ON leasehold_jobs (queue, kind, version, priority DESC, run_at, id) WHERE state = 'ready' AND scheduled = 0 AND blocked_by IS NULL;
CREATE INDEX leasehold_jobs_scheduled ON leasehold_jobs (queue, kind, version, run_at) WHERE scheduled = 1;
-- Held rows, for the sweep and for the look-up of a claim whose answer was lost.
CREATE INDEX leasehold_jobs_held ON leasehold_jobs (id) WHERE worker IS NOT NULL;
-- Those that wait for a limit, in the order in which they are admitted; and those that count against it.
CREATE INDEX leasehold_jobs_blocked ON leasehold_jobs (kind, limit_key, limit_rank DESC, id) WHERE blocked_by = 'limit';
CREATE INDEX leasehold_jobs_admitted ON leasehold_jobs (kind, limit_key) WHERE limit_key IS NOT NULL AND blocked_by IS NULL AND scheduled = 0;
CREATE INDEX leasehold_jobs_waiting ON leasehold_jobs (kind, id) WHERE blocked_by = 'jobs';
CREATE INDEX leasehold_jobs_batch ON leasehold_jobs (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX leasehold_jobs_expires ON leasehold_jobs (expires_at) WHERE expires_at IS NOT NULL AND state = 'ready';

-- Jobs that ended, with the fence under which they ended.
CREATE TABLE leasehold_finished_jobs (
    id              INTEGER PRIMARY KEY,
    queue           TEXT NOT NULL,
    kind            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    payload         TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('completed', 'discarded', 'cancelled')),
    priority        INTEGER NOT NULL,
    run_at          INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    max_attempts    INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    lease_token     TEXT,
    lease_ms        INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    unique_key      TEXT,
    unique_states   INTEGER NOT NULL DEFAULT 3,
    limit_key       TEXT,
    limit_rank      INTEGER NOT NULL DEFAULT 0,
    batch_id        INTEGER,
    created_at      INTEGER NOT NULL,
    finished_at     INTEGER NOT NULL,
    -- Why it was discarded or cancelled.
    reason          TEXT
) STRICT;
CREATE INDEX leasehold_finished_jobs_state ON leasehold_finished_jobs (state, finished_at, id);
CREATE INDEX leasehold_finished_jobs_batch ON leasehold_finished_jobs (batch_id, state) WHERE batch_id IS NOT NULL;

-- The failed attempts of a job, the newest 100 of them.
CREATE TABLE leasehold_job_errors (
    job_id     INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    cause      TEXT NOT NULL CHECK (cause IN ('error', 'panic', 'timeout', 'lease expired')),
    error      TEXT NOT NULL,
    PRIMARY KEY (job_id, generation)
) STRICT, WITHOUT ROWID;
-- For people, who ask what failed of late.
CREATE INDEX leasehold_job_errors_at ON leasehold_job_errors (at);

-- Keys that at most one job may have: unique keys while the job is in one of the key's states and the key has not expired,
-- idempotency keys until they expire.
CREATE TABLE leasehold_unique_keys (
    key         TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(key AS BLOB)) <= 128),
    job_id      INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    -- The states in which the job keeps the key, added up: ready 1, running 2, completed 4, discarded 8, cancelled 16.
    states      INTEGER NOT NULL DEFAULT 3 CHECK (states BETWEEN 1 AND 31),
    expires_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_unique_keys_expires ON leasehold_unique_keys (expires_at) WHERE expires_at IS NOT NULL;

-- One row per running worker process, for people to look at.
CREATE TABLE leasehold_workers (
    id           TEXT NOT NULL PRIMARY KEY,
    host         TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    threads      INTEGER NOT NULL,
    queues       TEXT NOT NULL,
    -- The kinds that it has handlers for, each with the highest version of a payload: [["mail", 2], …].
    kinds        TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The least program that may run on this schema. A later migration that breaks older programs raises it.
CREATE TABLE leasehold_compatibility (
    only_row        INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    minimum_program INTEGER NOT NULL
) STRICT;
INSERT INTO leasehold_compatibility (minimum_program) VALUES (1);
