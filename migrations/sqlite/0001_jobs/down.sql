DROP TABLE leasehold_compatibility;
DROP TABLE leasehold_workers;
DROP TABLE leasehold_unique_keys;
DROP TABLE leasehold_job_errors;
DROP TABLE leasehold_finished_jobs;
DROP TABLE leasehold_jobs;
