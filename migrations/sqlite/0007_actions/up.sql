-- What people did by hand, each written in the transaction that did it. Nothing here is ever changed; the oldest are deleted, a
-- thousand at a time.
CREATE TABLE leasehold_actions (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    at             INTEGER NOT NULL,
    -- Who, as the program was told.
    by             TEXT NOT NULL CHECK (length(CAST(by AS BLOB)) <= 255),
    action         TEXT NOT NULL,
    -- To a job, which had the one generation before and has the other afterwards.
    job_id         INTEGER,
    generation     INTEGER,
    new_generation INTEGER,
    -- Or to what has this name (a batch: its id).
    scope          TEXT CHECK (scope IN ('all', 'queue', 'kind', 'schedule', 'batch')),
    target         TEXT,
    reason         TEXT,
    CHECK (
        CASE WHEN job_id IS NULL THEN generation IS NULL AND new_generation IS NULL AND scope IS NOT NULL AND target IS NOT NULL
        ELSE generation IS NOT NULL AND new_generation IS NOT NULL AND scope IS NULL AND target IS NULL END
    )
) STRICT;
CREATE INDEX leasehold_actions_job ON leasehold_actions (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX leasehold_actions_by ON leasehold_actions (by, id);
CREATE INDEX leasehold_actions_at ON leasehold_actions (at);
