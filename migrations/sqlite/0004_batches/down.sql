DROP TABLE leasehold_job_waits;
DROP TABLE leasehold_batches;
DROP TABLE leasehold_job_progress;
DROP TABLE leasehold_job_results;
