-- What the steps of a job's handler gave back, each written when its effect had happened, by whoever held the lease then. A
-- later attempt takes them from here. Kept with the job, also when that moves to finished_jobs and back.
CREATE TABLE leasehold.steps (
    job_id     bigint NOT NULL,
    name       text NOT NULL CHECK (pg_catalog.octet_length(name) BETWEEN 1 AND 128),
    -- How many other steps its execution had asked for before it.
    position   bigint NOT NULL,
    -- Of the lease under which it was recorded.
    generation bigint NOT NULL,
    result     json NOT NULL,
    at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (job_id, name)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000
);
