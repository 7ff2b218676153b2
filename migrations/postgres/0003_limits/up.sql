-- What no worker claims from until it is resumed. A handful of rows, which every claim reads.
CREATE TABLE leasehold.pauses (
    scope  text NOT NULL CHECK (scope IN ('all', 'queue', 'kind')),
    -- The queue's or kind's name; empty for all.
    name   text NOT NULL CHECK (pg_catalog.octet_length(name) <= 128),
    at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    by     text NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (scope, name),
    CHECK ((scope = 'all') = (name = ''))
);

-- When jobs of kinds with a rate began, for as long as the rate looks back. Written by the statement that records that a
-- handler begins.
CREATE TABLE leasehold.starts (
    kind       text NOT NULL,
    limit_key  text NOT NULL,
    at         timestamptz NOT NULL,
    job_id     bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (kind, limit_key, at, job_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX starts_expires ON leasehold.starts (expires_at);

-- Those of a key that have begun before and wait for their next attempt: in a kind whose jobs run in turn, theirs it is.
CREATE INDEX jobs_turn ON leasehold.jobs (kind, limit_key, id) WHERE limit_key IS NOT NULL AND state = 'ready' AND attempt > 0;
