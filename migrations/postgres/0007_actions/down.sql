DROP TABLE leasehold.actions;
