DROP TABLE leasehold.inbox_events;
DROP TABLE leasehold.outbox_events;
