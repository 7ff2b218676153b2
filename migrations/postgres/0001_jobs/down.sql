DROP FUNCTION leasehold.withdraw(bigint[]);
DROP FUNCTION leasehold.enqueue(text, json, jsonb);
DROP TABLE leasehold.compatibility;
DROP TABLE leasehold.workers;
DROP TABLE leasehold.unique_keys;
DROP TABLE leasehold.job_errors;
DROP TABLE leasehold.finished_jobs;
DROP TABLE leasehold.jobs;
