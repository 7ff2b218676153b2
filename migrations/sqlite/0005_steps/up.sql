-- What the steps of a job's handler gave back, each written when its effect had happened, by whoever held the lease then. A
-- later attempt takes them from here. Kept with the job, also when that moves to finished_jobs and back.
CREATE TABLE leasehold_steps (
    job_id     INTEGER NOT NULL,
    name       TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    -- How many other steps its execution had asked for before it.
    position   INTEGER NOT NULL,
    -- Of the lease under which it was recorded.
    generation INTEGER NOT NULL,
    result     TEXT NOT NULL CHECK (json_valid(result)),
    at         INTEGER NOT NULL,
    PRIMARY KEY (job_id, name)
) STRICT;
