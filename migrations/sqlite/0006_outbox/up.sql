-- Events that are to be delivered outside of the database, written in the transaction that makes them true. A delivered one
-- is deleted.
CREATE TABLE leasehold_outbox_events (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Made by the client; the idempotency key of every delivery.
    event_id     TEXT NOT NULL UNIQUE,
    topic        TEXT NOT NULL CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 128),
    -- Order is kept within one; null: there is no order.
    key          TEXT CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 255),
    payload      TEXT NOT NULL CHECK (json_valid(payload)),
    state        TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'running', 'dead')),
    attempt      INTEGER NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 2147483647),
    max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 1 AND 2147483647),
    -- The next try of a ready one.
    run_at       INTEGER NOT NULL,
    -- Its lease ran out once, so it may be what ends its relay: it is claimed alone.
    suspect      INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),
    -- The fence, as that of a job: + 1 whenever ownership is given or taken away, and the token of the last lease.
    generation   INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
    lease_token  TEXT,
    lease_until  INTEGER,
    -- Of the last failed delivery.
    error        TEXT,
    created_at   INTEGER NOT NULL,
    dead_at      INTEGER,
    CHECK (state <> 'running' OR (lease_token IS NOT NULL AND lease_until IS NOT NULL)),
    CHECK ((state = 'dead') = (dead_at IS NOT NULL))
) STRICT;
-- From key to key, and the first events of each. What is delivered or dead is in none of the first four.
CREATE INDEX leasehold_outbox_events_keys ON leasehold_outbox_events (topic, key, id) WHERE key IS NOT NULL AND state <> 'dead';
CREATE INDEX leasehold_outbox_events_unkeyed ON leasehold_outbox_events (topic, run_at, id) WHERE key IS NULL AND state = 'ready';
CREATE INDEX leasehold_outbox_events_running ON leasehold_outbox_events (topic, key) WHERE state = 'running';
CREATE INDEX leasehold_outbox_events_suspect ON leasehold_outbox_events (topic, run_at, id)
    WHERE suspect = 1 AND key IS NULL AND state = 'ready';
CREATE INDEX leasehold_outbox_events_dead ON leasehold_outbox_events (topic, key, id) WHERE state = 'dead';
CREATE INDEX leasehold_outbox_events_listed ON leasehold_outbox_events (id) WHERE state = 'dead';

-- Events that a consumer in this database has accepted, each once.
CREATE TABLE leasehold_inbox_events (
    consumer TEXT NOT NULL CHECK (length(CAST(consumer AS BLOB)) BETWEEN 1 AND 128),
    event_id TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX leasehold_inbox_events_at ON leasehold_inbox_events (at);
