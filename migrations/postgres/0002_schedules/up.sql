-- Cron schedules: what each enqueues, and when. The programs compute the times; the row says which one comes next.
CREATE TABLE leasehold.schedules (
    -- Without a language: the programs go through the names in this order.
    name         text COLLATE pg_catalog."C" PRIMARY KEY CHECK (pg_catalog.octet_length(name) BETWEEN 1 AND 128),
    cron         text NOT NULL CHECK (pg_catalog.octet_length(cron) BETWEEN 1 AND 256),
    zone         text NOT NULL,
    -- What becomes of fire times at which no program ran: skip, run once, run all(10). A program leaves what it does not
    -- know to a newer one.
    missed       text NOT NULL,
    kind         text NOT NULL CHECK (pg_catalog.octet_length(kind) BETWEEN 1 AND 128),
    version      integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    payload      json NOT NULL,
    queue        text NOT NULL CHECK (pg_catalog.octet_length(queue) BETWEEN 1 AND 128),
    priority     smallint NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL CHECK (max_attempts >= 1),
    lease_ms     bigint NOT NULL CHECK (lease_ms BETWEEN 1 AND 31536000000),
    -- What else an enqueue is told.
    options      json NOT NULL DEFAULT '{}',
    -- No infinity, as in jobs.
    next_at      timestamptz NOT NULL CHECK (next_at > '-infinity' AND next_at < '10000-01-01 00:00:00+00'),
    last_at      timestamptz,
    paused       boolean NOT NULL DEFAULT false,
    -- A start of a program changes what code defined, and leaves what was put or changed at run time.
    defined_by   text NOT NULL CHECK (defined_by IN ('code', 'call')),
    -- +1 with each change, but not when it fires.
    revision     bigint NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE INDEX schedules_next ON leasehold.schedules (next_at) WHERE NOT paused;

-- Each fire time of a schedule once, over all processes, with its job. No reference to schedules: one that is removed and
-- made again must not fire again for a time that it was fired for.
CREATE TABLE leasehold.fires (
    schedule text NOT NULL,
    fire_at  timestamptz NOT NULL,
    job_id   bigint NOT NULL,
    fired_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (schedule, fire_at)
);
CREATE INDEX fires_fired ON leasehold.fires (fired_at);
