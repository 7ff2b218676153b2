//! Tables with hundreds of thousands of rows, for tests of how many of them a look reads.

use std::thread;
use std::time::Duration;

use super::Database;
use crate::TestDb;

impl Database {
    /// Fills the queue's tables, which are there, as a busy queue does, of each kind of row with more than any look may read: all
    /// of kind `note` in the queue `default`, and 20 running ones.
    ///
    /// | ids | |
    /// | --- | --- |
    /// | 1 to 200,000 | finished within the last two weeks, every tenth discarded with an error, every tenth cancelled |
    /// | 300,001 to 360,000 | ready and due |
    /// | 400,001 to 460,000 | scheduled |
    /// | 500,001 to 560,000 | blocked by a limit |
    /// | 600,001 to 600,020 | running, with steps and progress |
    ///
    /// Batch 1 has finished and open ones, 80,000 in all, and has not finished; batch 2 has finished, and 3 to 60 have no jobs.
    ///
    /// Job 600,001 is what 60,000 jobs wait or waited for, and was edited as often.
    #[track_caller]
    pub fn fill(&mut self) {
        for statement in [FINISHED, OPEN, RUNNING, OTHERS, "VACUUM (ANALYZE)", QUIET] {
            self.sql(statement);
        }
        // A session tells the server once a second what it has read, when a statement has ended.
        thread::sleep(Duration::from_millis(1100));
        self.sql("SELECT 1");
    }
}

const FINISHED: &str = "
    INSERT INTO leasehold.finished_jobs (id, queue, kind, version, payload, state, priority, run_at, attempt, max_attempts,
        generation, lease_ms, idempotency_key, batch_id, created_at, finished_at, reason)
    SELECT n, 'default', 'note', 1, '{\"n\":1}',
        CASE n % 10 WHEN 3 THEN 'discarded' WHEN 7 THEN 'cancelled' ELSE 'completed' END, 0, ended.at, 1, 5, 1, 60000, 'key ' || n,
        CASE WHEN n % 4 = 1 THEN 1 END, ended.at, ended.at, CASE n % 10 WHEN 3 THEN 'no route' WHEN 7 THEN 'not wanted' END
    FROM generate_series(1, 200000) AS n
    CROSS JOIN LATERAL (SELECT now() - (200000 - n) * INTERVAL '6 seconds' AS at) AS ended;
    INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error)
    SELECT id, 1, 1, finished_at, 'error', reason FROM leasehold.finished_jobs WHERE state = 'discarded';
    INSERT INTO leasehold.job_results (job_id, generation, result)
    SELECT id, 1, '1' FROM leasehold.finished_jobs WHERE state = 'completed'
";

const OPEN: &str = "
    INSERT INTO leasehold.jobs (id, queue, kind, payload, run_at, scheduled, blocked_by, limit_key, batch_id, max_attempts, lease_ms)
    SELECT case_of.first + n, 'default', 'note', '{\"n\":1}', now() + case_of.later, case_of.later > INTERVAL '0', case_of.blocked_by,
        case_of.limit_key, CASE WHEN n % 6 = 1 THEN 1 END, 5, 60000
    FROM (VALUES
        (300000, INTERVAL '0', NULL, NULL), (400000, INTERVAL '1 day', NULL, NULL), (500000, INTERVAL '0', 'limit', 'limit:one')
    ) AS case_of (first, later, blocked_by, limit_key) CROSS JOIN generate_series(1, 60000) AS n;
    INSERT INTO leasehold.job_waits (job_id, on_job_id, name, anyway)
    SELECT 300000 + n, 600001, 'input', false FROM generate_series(1, 60000) AS n
";

const RUNNING: &str = "
    INSERT INTO leasehold.jobs (id, queue, kind, payload, state, attempt, generation, lease_token, lease_until, worker, begun,
        max_attempts, lease_ms)
    SELECT 600000 + n, 'default', 'note', '{\"n\":1}', 'running', 1, 1, gen_random_uuid(), now() + INTERVAL '1 hour',
        '00000000-0000-4000-8000-000000000001', true, 5, 60000
    FROM generate_series(1, 20) AS n;
    INSERT INTO leasehold.job_progress (job_id, generation, done, total, text)
    SELECT 600000 + n, 1, 1, 2, 'half' FROM generate_series(1, 20) AS n;
    INSERT INTO leasehold.steps (job_id, name, position, generation, result)
    SELECT 600000 + n % 20, 'step ' || n, n, 1, '1' FROM generate_series(1, 100) AS n;
    INSERT INTO leasehold.steps (job_id, name, position, generation, result)
    SELECT id, 'step', 0, 1, '1' FROM leasehold.finished_jobs WHERE id > 150000;
    INSERT INTO leasehold.workers (id, host, pid, threads, queues, kinds)
    VALUES ('00000000-0000-4000-8000-000000000001', 'host', 1, 20, '[\"default\"]', '[[\"note\", 1]]')
";

const OTHERS: &str = "
    INSERT INTO leasehold.batches (id, name, finished_at, completed, discarded, cancelled)
    VALUES (1, 'large', NULL, NULL, NULL, NULL), (2, 'over', now(), 70000, 1, 2);
    INSERT INTO leasehold.batches (id, name) SELECT n, 'empty' FROM generate_series(3, 60) AS n;
    INSERT INTO leasehold.schedules (name, cron, zone, missed, kind, payload, queue, max_attempts, lease_ms, next_at, defined_by)
    SELECT 'schedule ' || n, '0 3 * * *', 'UTC', 'skip', 'note', '{\"n\":1}', 'default', 5, 60000, now() + INTERVAL '1 hour', 'call'
    FROM generate_series(1, 20) AS n;
    INSERT INTO leasehold.actions (by, action, job_id, generation, new_generation)
    SELECT 'Ada', 'edit', 600001, n, n + 1 FROM generate_series(1, 60000) AS n;
    INSERT INTO leasehold.pauses (scope, name, by, reason) VALUES ('kind', 'note', 'Ada', 'no paper')
";

/// A vacuum reads pages, too.
const QUIET: &str = "
    ALTER TABLE leasehold.jobs SET (autovacuum_enabled = off);
    ALTER TABLE leasehold.finished_jobs SET (autovacuum_enabled = off);
    ALTER TABLE leasehold.job_errors SET (autovacuum_enabled = off);
    ALTER TABLE leasehold.job_results SET (autovacuum_enabled = off);
    ALTER TABLE leasehold.job_waits SET (autovacuum_enabled = off);
    ALTER TABLE leasehold.actions SET (autovacuum_enabled = off);
    ALTER TABLE leasehold.steps SET (autovacuum_enabled = off)
";
