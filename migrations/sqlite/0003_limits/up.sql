-- What no worker claims from until it is resumed. A handful of rows, which every claim reads.
CREATE TABLE leasehold_pauses (
    scope  TEXT NOT NULL CHECK (scope IN ('all', 'queue', 'kind')),
    -- The queue's or kind's name; empty for all.
    name   TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) <= 128),
    at     INTEGER NOT NULL,
    by     TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (scope, name),
    CHECK ((scope = 'all') = (name = ''))
) STRICT, WITHOUT ROWID;

-- When jobs of kinds with a rate began, for as long as the rate looks back. Written with the record that a handler begins.
CREATE TABLE leasehold_starts (
    kind       TEXT NOT NULL,
    limit_key  TEXT NOT NULL,
    at         INTEGER NOT NULL,
    job_id     INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (kind, limit_key, at, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_starts_expires ON leasehold_starts (expires_at);

-- Those of a key that have begun before and wait for their next attempt: in a kind whose jobs run in turn, theirs it is.
CREATE INDEX leasehold_jobs_turn ON leasehold_jobs (kind, limit_key, id) WHERE limit_key IS NOT NULL AND state = 'ready' AND attempt > 0;
