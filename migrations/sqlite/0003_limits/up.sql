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
