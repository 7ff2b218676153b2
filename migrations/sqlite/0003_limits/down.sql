DROP TABLE leasehold_pauses;
