use std::time::Duration;

use leasehold::manage::{self, Retention, Scope};
use leasehold::{Counts, Job, Schema, Worker};
use leasehold_tests::jobs::{App, HOUR, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

/// Ends jobs as completed, discarded and cancelled, so long ago in milliseconds.
fn ended<Db: TestDb>(db: &mut Db, conn: &mut Db::Connection, ago: i64) -> Counts
where
    Step: leasehold::Handler<Db::Connection, App>,
{
    for (n, then) in (1..).zip([Then::Finish, Then::Discard, Then::Cancel]) {
        Step::now(n, then).enqueue(conn).unwrap();
    }
    let (app, _remote) = app();
    let summary = Worker::<Db::Connection, App>::new(db.url(), app)
        .register::<Step>()
        .run_until_empty()
        .unwrap();
    db.set_time("leasehold.finished_jobs", "finished_at", -ago, "1 = 1");
    summary.counts
}

const HOUR_MS: i64 = 3_600_000;

conformance!(
    fn workers_remove_finished_jobs_after_the_time_of_their_state(db: &mut Db) {
        let mut conn = prepare(db);
        assert_eq!(ended(db, &mut conn, 2 * HOUR_MS).ended(), 3);
        let hour = Duration::from_secs(3600);
        let retention = Retention::keep_all().completed(hour).cancelled(3 * hour);
        let (app, _remote) = app();
        let _running = Worker::<Connection, App>::new(db.url(), app)
            .retention(retention)
            .register::<Step>()
            .start()
            .unwrap();
        let left = "SELECT count(*) FROM leasehold.finished_jobs";
        eventually(SOON, "the completed one is removed", || db.integer(left) == 2);
        assert_eq!(db.integer(&format!("{left} WHERE state = 'completed'")), 0);
    }
);

conformance!(
    fn discarded_jobs_are_kept_for_90_days_and_others_for_a_week_by_default(db: &mut Db) {
        let mut conn = prepare(db);
        ended(db, &mut conn, 8 * 24 * HOUR_MS);
        let start = |db: &Db| {
            let (app, _remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app);
            worker.register::<Step>().start().unwrap()
        };
        let left = "SELECT count(*) FROM leasehold.finished_jobs";
        let running = start(db);
        eventually(SOON, "the others are removed", || db.integer(left) == 1);
        assert_eq!(db.integer(&format!("{left} WHERE state = 'discarded'")), 1);
        drop(running);
        db.set_time("leasehold.finished_jobs", "finished_at", -91 * 24 * HOUR_MS, "1 = 1");
        let _running = start(db);
        eventually(SOON, "it is removed after its time", || db.integer(left) == 0);
    }
);

conformance!(
    fn a_backlog_does_not_wait_for_as_many_turns_of_maintenance(db: &mut Db) {
        let mut conn = prepare(db);
        assert_eq!(ended(db, &mut conn, 2 * HOUR_MS).ended(), 3);
        db.sql("UPDATE leasehold.finished_jobs SET state = 'completed'");
        let columns = "queue, kind, version, payload, state, priority, run_at, attempt, max_attempts, generation, lease_ms, \
                       idempotency_key, created_at, finished_at";
        // Two chunks and some.
        db.sql(&format!(
            "INSERT INTO leasehold.finished_jobs (id, {columns})
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 800)
             SELECT f.id * 1000 + n.n, {columns} FROM leasehold.finished_jobs AS f CROSS JOIN n"
        ));
        let left = "SELECT count(*) FROM leasehold.finished_jobs";
        assert_eq!(db.integer(left), 2403);
        let (app, _remote) = app();
        let _running = Worker::<Connection, App>::new(db.url(), app)
            .retention(Retention::keep_all().completed(Duration::from_secs(3600)))
            // It has one turn.
            .sweep_interval(HOUR)
            .register::<Step>()
            .start()
            .unwrap();
        eventually(SOON, "all are removed", || db.integer(left) == 0);
    }
);

conformance!(
    fn workers_forget_after_90_days_what_people_did(db: &mut Db) {
        let mut conn = prepare(db);
        for reason in ["old", "new"] {
            manage::pause(&mut conn, &Schema::default(), Scope::Queue("none"), "ada", reason).unwrap();
        }
        db.set_time("leasehold.actions", "at", -89 * 24 * HOUR_MS, "reason = 'new'");
        db.set_time("leasehold.actions", "at", -91 * 24 * HOUR_MS, "reason = 'old'");
        let start = |db: &Db, retention: Retention| {
            let (app, _remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app).retention(retention);
            worker.register::<Step>().start().unwrap()
        };
        let left = "SELECT count(*) FROM leasehold.actions";
        let running = start(db, Retention::default());
        eventually(SOON, "the old one is forgotten", || db.integer(left) == 1);
        drop(running);
        let _running = start(db, Retention::keep_all().actions(Duration::from_secs(24 * 3600)));
        eventually(SOON, "the other one, too", || db.integer(left) == 0);
    }
);
