-- The tables of migrations/postgres, for SQLite; see 0001 there for how values are kept.
CREATE TABLE leasehold_schedules (
    name         TEXT PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    cron         TEXT NOT NULL CHECK (length(CAST(cron AS BLOB)) BETWEEN 1 AND 256),
    zone         TEXT NOT NULL,
    -- What becomes of fire times at which no program ran: skip, run once, run all(10). A program leaves what it does not
    -- know to a newer one.
    missed       TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (length(CAST(kind AS BLOB)) BETWEEN 1 AND 128),
    version      INTEGER NOT NULL DEFAULT 1 CHECK (version BETWEEN 1 AND 2147483647),
    payload      TEXT NOT NULL CHECK (json_valid(payload)),
    queue        TEXT NOT NULL CHECK (length(CAST(queue AS BLOB)) BETWEEN 1 AND 128),
    priority     INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 2147483647),
    lease_ms     INTEGER NOT NULL CHECK (lease_ms BETWEEN 1 AND 31536000000),
    -- What else an enqueue is told.
    options      TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(options)),
    next_at      INTEGER NOT NULL,
    last_at      INTEGER,
    paused       INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    -- A start of a program changes what code defined, and leaves what was put or changed at run time.
    defined_by   TEXT NOT NULL CHECK (defined_by IN ('code', 'call')),
    -- +1 with each change, but not when it fires.
    revision     INTEGER NOT NULL DEFAULT 1,
    created_at   INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
) STRICT;
CREATE INDEX leasehold_schedules_next ON leasehold_schedules (next_at) WHERE paused = 0;

-- Each fire time of a schedule once, over all processes, with its job. No reference to schedules: one that is removed and
-- made again must not fire again for a time that it was fired for.
CREATE TABLE leasehold_fires (
    schedule TEXT NOT NULL,
    fire_at  INTEGER NOT NULL,
    job_id   INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    PRIMARY KEY (schedule, fire_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_fires_fired ON leasehold_fires (fired_at);
