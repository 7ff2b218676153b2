DROP TABLE leasehold_steps;
