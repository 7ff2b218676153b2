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
