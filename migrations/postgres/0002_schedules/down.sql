DROP TABLE leasehold.fires;
DROP TABLE leasehold.schedules;
