//! A job whose unique key went to another, and who waits for whom.

use leasehold::testing::Runner;
use leasehold::{EnqueueError, EnqueueOptions, Enqueued, Job};

use crate::pages::*;
use crate::support::*;

conformance!(
    fn a_job_that_lost_its_key_runs_again_and_leaves_the_key_to_its_new_holder(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        // A retry, a snooze, a release and a sweep, each after a second job has taken the key.
        let ways: [fn(&mut Connection, leasehold::__private::Fence); 4] = [
            |conn, fence| put_back(conn, &fence, true),
            |conn, fence| put_back(conn, &fence, false),
            |conn, fence| assert_eq!(conn.release(&default_schema(), &[fence]).unwrap(), [fence.id]),
            |conn, fence| {
                assert_eq!(conn.expire_lease(&default_schema(), fence.id).unwrap(), 1);
                assert_eq!(conn.sweep(&default_schema(), 10).unwrap()[0].state, "ready");
            },
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let page = number.to_string();
            let first = WhileReady::new(&page, "first").enqueue(&mut conn).unwrap().id();
            let fence = claim_one(&mut conn, "while-ready");
            let second = WhileReady::new(&page, "second").enqueue(&mut conn).unwrap();
            assert!(second.is_new());
            way(&mut conn, fence);
            assert_eq!(
                WhileReady::new(&page, "third").enqueue(&mut conn).unwrap(),
                Enqueued::Existing { id: second.id() },
                "way {number}"
            );
            // Both are ready; the first one ends, and the key stays with the second one.
            assert_eq!(ready(db).len(), 2, "way {number}");
            let (rows, token) = claim_served(&mut conn, &[served("default", "while-ready", 1)], 2);
            let fences: Vec<_> = rows.iter().map(|row| fence_of(row, token)).collect();
            assert_eq!(
                fences.iter().map(|fence| fence.id).collect::<Vec<_>>(),
                [first, second.id()]
            );
            assert_eq!(conn.release(&schema, &fences[1..]).unwrap(), [second.id()]);
            assert_eq!(conn.finish(&schema, &fences[..1]).unwrap(), [first]);
            let holder = format!(
                "SELECT count(*) FROM leasehold.unique_keys WHERE job_id = {}",
                second.id()
            );
            assert_eq!(db.integer(&holder), 1, "way {number}");
            assert!(!WhileReady::new(&page, "third").enqueue(&mut conn).unwrap().is_new());
            assert!(Runner::new(()).register::<WhileReady>().run_one(&mut conn).unwrap());
        }
    }
);

#[track_caller]
fn put_back<C: Backend>(conn: &mut C, fence: &leasehold::__private::Fence, uses_attempt: bool) {
    let how = PutBack {
        delay_ms: 0,
        uses_attempt,
        takes_away: false,
        error: None,
    };
    assert_eq!(conn.put_back(&default_schema(), fence, &how).unwrap(), 1);
}

conformance!(
    /// procrastinate#1446, oban#1416, awa#388: there, one of them failed the whole sweep, at every tick.
    fn unique_conflicts_among_five_hundred_swept_jobs_fail_none_of_them(db: &mut Db) {
        let mut conn = migrated(db);
        let jobs = |text: &str, numbers: std::ops::Range<usize>| -> Vec<WhileReady> {
            numbers
                .map(|number| WhileReady::new(&number.to_string(), text))
                .collect()
        };
        Job::enqueue_all(&jobs("first", 0..500), &mut conn, &EnqueueOptions::new()).unwrap();
        let (rows, _) = claim_served(&mut conn, &[served("default", "while-ready", 1)], 500);
        assert_eq!(rows.len(), 500);
        // Every other one has lost its key meanwhile.
        let again = Job::enqueue_all(&jobs("second", 0..250), &mut conn, &EnqueueOptions::new()).unwrap();
        assert!(again.iter().all(Enqueued::is_new));
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let swept = conn.sweep(&default_schema(), 500).unwrap();
        assert_eq!(swept.len(), 500);
        assert!(swept.iter().all(|job| job.state == "ready" && job.generation == 2));
        assert_eq!(ready(db).len(), 750);
        // Those that kept theirs still have it.
        let third = Job::enqueue_all(&jobs("third", 0..500), &mut conn, &EnqueueOptions::new()).unwrap();
        for (number, answer) in third.iter().enumerate() {
            let holder = match number {
                0..250 => again[number].id(),
                _ => rows[number].id,
            };
            assert_eq!(*answer, Enqueued::Existing { id: holder });
        }
        let counts = Runner::new(()).register::<WhileReady>().drain(&mut conn).unwrap();
        assert_eq!(counts.completed, 750);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.unique_keys"), 0);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn a_job_that_an_enqueue_was_answered_with_is_not_claimed_before_its_commit(db: &mut Db) {
        let mut conn = migrated(db);
        let mut worker = open(db);
        let id = Plain::new("a", "").enqueue(&mut conn).unwrap().id();
        let serves = [served("default", "plain", 1)];
        conn.transaction(|tx| {
            let answer = Plain::new("a", "").enqueue(tx)?;
            assert_eq!(answer, Enqueued::Existing { id });
            // What the caller writes now, the job will find.
            assert!(claim_served(&mut worker, &serves, 1).0.is_empty());
            write(tx, 1)?;
            Ok::<_, EnqueueError>(())
        })
        .unwrap();
        assert_eq!(claim_served(&mut worker, &serves, 1).0[0].id, id);
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn no_end_of_a_job_waits_for_an_enqueue_of_its_key(db: &mut Db) {
        let mut conn = migrated(db);
        let mut worker = open(db);
        worker.batch_execute("SET statement_timeout = '10s'").unwrap();
        let mut end = |fence| worker.finish(&default_schema(), &[fence]).unwrap();
        // The running one keeps the key; and the running one loses it.
        let plain = Plain::new("a", "").enqueue(&mut conn).unwrap().id();
        let running = claim_one(&mut conn, "plain");
        let waiting = WhileReady::new("a", "").enqueue(&mut conn).unwrap().id();
        let loses = claim_one(&mut conn, "while-ready");
        let ended = conn.transaction(|tx| {
            assert_eq!(Plain::new("a", "").enqueue(tx)?, Enqueued::Existing { id: plain });
            assert_eq!(end(running), [plain]);
            assert!(WhileReady::new("a", "").enqueue(tx)?.is_new());
            assert_eq!(end(loses), [waiting]);
            Err::<(), _>(EnqueueError::Database(diesel::result::Error::RollbackTransaction))
        });
        assert!(ended.is_err());
        // The key that was being taken over is still there, and its holder has ended: it is free.
        assert_eq!(
            db.integer(&format!(
                "SELECT count(*) FROM leasehold.unique_keys WHERE job_id = {waiting}"
            )),
            1
        );
        assert!(WhileReady::new("a", "").enqueue(&mut conn).unwrap().is_new());
        assert!(Plain::new("a", "").enqueue(&mut conn).unwrap().is_new());
    }
);

conformance!(
    /// Nothing but a broken table does this for long.
    fn an_enqueue_whose_key_can_neither_be_had_nor_found_ends_with_an_error(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql(match Db::BACKEND {
            "sqlite" => "CREATE TRIGGER swallow BEFORE INSERT ON leasehold_unique_keys BEGIN SELECT raise(IGNORE); END",
            _ => {
                "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                 CREATE TRIGGER swallow BEFORE INSERT ON leasehold.unique_keys
                     FOR EACH ROW EXECUTE FUNCTION swallow()"
            }
        });
        let refused = Plain::new("a", "").enqueue(&mut conn);
        assert!(matches!(refused, Err(EnqueueError::KeysContended)), "{refused:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);
