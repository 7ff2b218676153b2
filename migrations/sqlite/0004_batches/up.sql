-- What a completed job gave back, written in the transaction of its completion. It counts if its generation is the one
-- under which the job ended.
CREATE TABLE leasehold_job_results (
    job_id     INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    result     TEXT NOT NULL CHECK (json_valid(result))
) STRICT;

-- How far a job's handler says it has come: the newest word of the newest lease.
CREATE TABLE leasehold_job_progress (
    job_id     INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    done       INTEGER NOT NULL,
    total      INTEGER NOT NULL,
    text       TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;

-- Many jobs that are looked at together (jobs.batch_id). No counters while it runs: each job's commit would wait for them.
CREATE TABLE leasehold_batches (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 255),
    created_at    INTEGER NOT NULL,
    -- The callbacks: ready jobs, blocked by 'jobs' until the batch lets them go.
    done_job      INTEGER,
    discarded_job INTEGER,
    -- When the first discarded job was seen, and its callback was let go.
    discarded_at  INTEGER,
    cancelled_at  INTEGER,
    finished_at   INTEGER,
    -- How its jobs ended, once all have.
    completed     INTEGER,
    discarded     INTEGER,
    cancelled     INTEGER
) STRICT;
CREATE INDEX leasehold_batches_open ON leasehold_batches (id) WHERE finished_at IS NULL;
CREATE INDEX leasehold_batches_finished ON leasehold_batches (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX leasehold_batches_done_job ON leasehold_batches (done_job) WHERE done_job IS NOT NULL;
CREATE INDEX leasehold_batches_discarded_job ON leasehold_batches (discarded_job) WHERE discarded_job IS NOT NULL;

-- Which jobs have to end before a job may run (its blocked_by is 'jobs' until then).
CREATE TABLE leasehold_job_waits (
    job_id    INTEGER NOT NULL,
    on_job_id INTEGER NOT NULL,
    -- Under which the waiting job's handler finds the other one's result.
    name      TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    -- It runs even if the other one is discarded or cancelled; else it is cancelled with it.
    anyway    INTEGER NOT NULL CHECK (anyway IN (0, 1)),
    PRIMARY KEY (job_id, on_job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_job_waits_on ON leasehold_job_waits (on_job_id, job_id);
