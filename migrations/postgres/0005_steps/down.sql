DROP TABLE leasehold.steps;
