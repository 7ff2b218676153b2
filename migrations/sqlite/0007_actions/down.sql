DROP TABLE leasehold_actions;
