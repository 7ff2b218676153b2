DROP TABLE leasehold_fires;
DROP TABLE leasehold_schedules;
