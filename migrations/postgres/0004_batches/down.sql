DROP TABLE leasehold.job_waits;
DROP TABLE leasehold.batches;
DROP TABLE leasehold.job_progress;
DROP TABLE leasehold.job_results;
