DROP TABLE leasehold.pauses;
