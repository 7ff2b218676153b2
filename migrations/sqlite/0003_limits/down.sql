DROP INDEX leasehold_jobs_turn;
DROP TABLE leasehold_starts;
DROP TABLE leasehold_pauses;
