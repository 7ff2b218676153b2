DROP TABLE leasehold_inbox_events;
DROP TABLE leasehold_outbox_events;
