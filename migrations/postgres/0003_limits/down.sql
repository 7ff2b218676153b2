DROP INDEX leasehold.jobs_turn;
DROP TABLE leasehold.starts;
DROP TABLE leasehold.pauses;
