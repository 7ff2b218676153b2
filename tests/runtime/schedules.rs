use std::sync::mpsc;
use std::time::Duration;

use leasehold::schedule::{self, DefinedBy, FireInfo, Missed, Schedule, ScheduleError, ScheduleRecord};
use leasehold::{Backend, Handler, Hooks, Job, JobError, LeaseGuard, Outcome, Schema, StartError, Worker};
use leasehold_tests::jobs::{HOUR, Note, SOON, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};
use serde::{Deserialize, Serialize};

pub(crate) const YEARLY: &str = "0 0 1 1 *";
const OFTEN: Duration = Duration::from_millis(20);

fn yearly(name: &str) -> Schedule {
    Schedule::new(name, YEARLY).job(&Note { n: 1 })
}

#[track_caller]
fn found<C: Backend>(conn: &mut C, name: &str) -> ScheduleRecord {
    schedule::find(conn, &Schema::default(), name).unwrap().unwrap()
}

fn move_next<D: TestDb>(db: &mut D, name: &str, milliseconds: i64) {
    let filter = format!("name = '{name}'");
    db.set_time("leasehold.schedules", "next_at", milliseconds, &filter);
}

fn fires<D: TestDb>(db: &mut D, name: &str) -> i64 {
    db.integer(&format!(
        "SELECT count(*) FROM leasehold.fires WHERE schedule = '{name}'"
    ))
}

/// Tells a test of fires.
struct Tell(mpsc::Sender<(String, i64, bool)>);

impl Hooks for Tell {
    fn fired(&self, fire: &FireInfo<'_>) {
        let _ = self.0.send((fire.schedule.to_owned(), fire.job, fire.is_new));
    }
}

conformance!(
    fn a_worker_fires_at_the_very_time_and_not_at_its_next_sweep(db: &mut Db) {
        prepare(db);
        let (tell, told) = mpsc::channel();
        let name = format!("every second, {}", Db::BACKEND);
        let running = Worker::<Connection, _>::new(db.url(), ())
            .sweep_interval(HOUR)
            .poll_interval(HOUR)
            .hooks(Tell(tell))
            .register::<Note>()
            .schedule(Schedule::new(&name, "* * * * * *").job(&Note { n: 1 }))
            .start()
            .unwrap();
        let log = capture_log();
        for _ in 1..=3 {
            let (fired, job, is_new) = told.recv_timeout(SOON).unwrap();
            assert_eq!((&fired, is_new), (&name, true));
            assert!(job > 0);
        }
        eventually(SOON, "their jobs run", || running.counts().completed >= 3);
        eventually(SOON, "each is one line of the log", || {
            !log.with(&format!("fired schedule=\"{name}\" at=20")).is_empty()
        });
    }
);

conformance!(
    /// River#791: a schedule in memory begins anew with every start, and never comes to its time.
    fn frequent_restarts_still_fire(db: &mut Db) {
        let mut conn = prepare(db);
        let worker = || {
            Worker::<Connection, _>::new(db.url(), ())
                .sweep_interval(OFTEN)
                .register::<Note>()
                .schedule(yearly("a year"))
                .start()
                .unwrap()
        };
        drop(worker());
        let (first, url) = (found(&mut conn, "a year").next_at, db.url());
        for _ in 1..=5 {
            drop(worker());
        }
        assert_eq!(found(&mut conn, "a year").next_at, first);
        for round in 1..=3 {
            // Its time comes while nothing runs.
            move_next(db, "a year", -1_000 * (10 - round));
            let running = Worker::<Connection, _>::new(&url, ())
                .sweep_interval(OFTEN)
                .register::<Note>()
                .schedule(yearly("a year"))
                .start()
                .unwrap();
            eventually(SOON, "it fires", || fires(db, "a year") == round);
            eventually(SOON, "its job runs", || running.counts().completed == 1);
        }
        assert_eq!(found(&mut conn, "a year").next_at, first);
    }
);

conformance!(
    /// Apalis#281: every instance enqueued its own copy.
    fn several_instances_enqueue_one_copy(db: &mut Db) {
        prepare(db);
        let (tell, told) = mpsc::channel();
        let all: Vec<_> = (0..4)
            .map(|_| {
                Worker::<Connection, _>::new(db.url(), ())
                    .threads(1)
                    .sweep_interval(OFTEN)
                    .hooks(Tell(tell.clone()))
                    .register::<Note>()
                    .schedule(yearly("a year"))
                    .start()
                    .unwrap()
            })
            .collect();
        for round in 1..=8 {
            move_next(db, "a year", -1_000 * (20 - round));
            eventually(SOON, "it fires", || fires(db, "a year") == round);
        }
        eventually(SOON, "its jobs run", || db.integer("SELECT count(*) FROM effects") >= 8);
        drop(all);
        drop(tell);
        assert_eq!(told.iter().count(), 8);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 8);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    fn a_start_writes_what_has_changed_in_the_code_and_nothing_else(db: &mut Db) {
        let mut conn = prepare(db);
        let url = db.url();
        let start = |schedules: Vec<Schedule>| {
            let worker = Worker::<Connection, _>::new(&url, ()).register::<Note>();
            drop(schedules.into_iter().fold(worker, Worker::schedule).start().unwrap());
        };
        start(vec![yearly("a"), yearly("b")]);
        let first = found(&mut conn, "a");
        assert_eq!((first.defined_by, first.revision), (DefinedBy::Code, 1));
        start(vec![yearly("a"), yearly("b")]);
        assert_eq!(found(&mut conn, "a").revision, 1);

        // Another payload keeps the time, another cron text does not.
        move_next(db, "a", 7_000_000);
        let moved = found(&mut conn, "a").next_at;
        start(vec![Schedule::new("a", YEARLY).job(&Note { n: 2 })]);
        let second = found(&mut conn, "a");
        assert_eq!(
            (second.revision, second.next_at, second.payload.as_str()),
            (2, moved, "{\"n\":2}")
        );
        start(vec![Schedule::new("a", "0 0 2 1 *").job(&Note { n: 2 })]);
        let third = found(&mut conn, "a");
        assert_eq!((third.revision, third.next_at == moved), (3, false));

        // One that is not in the code any more stays, until it is removed.
        assert_eq!(found(&mut conn, "b").revision, 1);
        assert!(schedule::remove(&mut conn, &Schema::default(), "b", "ops").unwrap());

        // A pause is not the code's business; a change at run time takes the schedule from it.
        schedule::pause(&mut conn, &Schema::default(), "a", "ops").unwrap();
        start(vec![yearly("a")]);
        let paused = found(&mut conn, "a");
        assert!(paused.paused && paused.cron == YEARLY, "{paused:?}");
        let changed = Schedule::new("a", "0 0 3 1 *").job(&Note { n: 3 });
        schedule::change(&mut conn, &Schema::default(), &changed, paused.revision).unwrap();
        start(vec![yearly("a")]);
        let own = found(&mut conn, "a");
        assert_eq!(
            (own.defined_by, own.cron.as_str(), own.revision),
            (DefinedBy::Call, "0 0 3 1 *", paused.revision + 1)
        );
    }
);

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "grown", version = 2, migrate = same)]
struct Grown {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "grown")]
struct Young {}

fn same(_: u32, payload: serde_json::Value) -> Result<serde_json::Value, String> {
    Ok(payload)
}

conformance!(
    /// While a new version of a program replaces the old one, both start again and again.
    fn an_older_program_does_not_change_a_schedule_back(db: &mut Db) {
        let mut conn = prepare(db);
        let url = db.url();
        let start = |schedule: Schedule| {
            let worker = Worker::<Connection, _>::new(&url, ()).register::<Note>();
            drop(worker.schedule(schedule).start().unwrap());
        };
        start(Schedule::new("a", YEARLY).job(&Young {}));
        start(Schedule::new("a", "0 0 2 1 *").job(&Grown {}));
        for _ in 1..=3 {
            start(Schedule::new("a", YEARLY).job(&Young {}));
            start(Schedule::new("a", "0 0 2 1 *").job(&Grown {}));
        }
        let record = found(&mut conn, "a");
        assert_eq!(
            (record.revision, record.version, record.cron.as_str()),
            (2, 2, "0 0 2 1 *")
        );
    }
);

/// Says when it was meant to run.
#[derive(Serialize, Deserialize, Default, Job)]
#[job(kind = "plain", schedule(cron = "@yearly"))]
struct Plain {
    n: i64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(
    kind = "told",
    queue = "own",
    schedule(cron = "30 2 1 1 *", zone = "Europe/Berlin", missed = "run all(3)", name = "told at night", payload = Told::tonight)
)]
struct Told {
    n: i64,
}

impl Told {
    fn tonight() -> Self {
        Self { n: 7 }
    }
}

type Seen = mpsc::SyncSender<(i64, bool)>;

impl<C: Backend> Handler<C, Seen> for Plain {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, seen: &Seen) -> Outcome<'j> {
        let _ = seen.send((self.n, lease.fire_at().is_some()));
        lease.finish()
    }
}

impl<C: Backend> Handler<C, Seen> for Told {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, seen: &Seen) -> Outcome<'j> {
        let _ = seen.send((self.n, lease.fire_at().is_some()));
        lease.finish()
    }
}

conformance!(
    fn a_kind_with_a_schedule_is_enqueued_by_its_registration(db: &mut Db) {
        let mut conn = prepare(db);
        let (seen, sees) = mpsc::sync_channel(9);
        let _running = Worker::<Connection, Seen>::new(db.url(), seen)
            .sweep_interval(OFTEN)
            .register::<Plain>()
            .register::<Told>()
            .start()
            .unwrap();
        let plain = found(&mut conn, "plain");
        assert_eq!(
            (plain.cron.as_str(), plain.zone.as_str(), plain.missed.as_str()),
            ("@yearly", "UTC", "run once")
        );
        assert_eq!(
            (plain.payload.as_str(), plain.defined_by),
            ("{\"n\":0}", DefinedBy::Code)
        );
        let told = found(&mut conn, "told at night");
        assert_eq!(
            (told.cron.as_str(), told.zone.as_str(), told.missed.as_str()),
            ("30 2 1 1 *", "Europe/Berlin", "run all(3)")
        );
        assert_eq!((told.kind.as_str(), told.queue.as_str()), ("told", "own"));
        move_next(db, "plain", -2_000);
        assert_eq!(sees.recv_timeout(SOON).unwrap(), (0, true));
        move_next(db, "told at night", -2_000);
        assert_eq!(sees.recv_timeout(SOON).unwrap(), (7, true));
    }
);

conformance!(
    fn a_mistake_in_a_schedule_stops_the_start_before_anything_is_written(db: &mut Db) {
        prepare(db);
        let refused = |schedules: Vec<Schedule>| {
            let worker = Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
            match schedules.into_iter().fold(worker, Worker::schedule).start() {
                Err(StartError::Schedule(error)) => error,
                other => panic!("{other:?}"),
            }
        };
        let zone = refused(vec![yearly("a"), yearly("b").zone("Mars")]);
        assert!(matches!(zone, ScheduleError::Zone { .. }), "{zone:?}");
        let never = refused(vec![yearly("a"), Schedule::new("b", "0 0 30 2 *").job(&Note { n: 1 })]);
        assert!(matches!(never, ScheduleError::Cron { .. }), "{never:?}");
        let bound = refused(vec![yearly("a").missed(Missed::RunAll { at_most: 0 })]);
        assert!(matches!(bound, ScheduleError::Missed { .. }), "{bound:?}");
        let twice = refused(vec![yearly("a"), yearly("a").zone("Asia/Tokyo")]);
        assert!(matches!(twice, ScheduleError::Twice { .. }), "{twice:?}");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.schedules"), 0);
    }
);

/// Never succeeds.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "hopeless", max_attempts = 1)]
struct Hopeless {}

impl<C: Backend> Handler<C, ()> for Hopeless {
    fn run<'j>(self, _: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        Err(JobError::discard("hopeless"))
    }
}

conformance!(
    fn a_schedule_whose_jobs_all_fail_goes_on(db: &mut Db) {
        prepare(db);
        let running = Worker::<Connection, _>::new(db.url(), ())
            .sweep_interval(OFTEN)
            .register::<Hopeless>()
            .schedule(Schedule::new("a", YEARLY).job(&Hopeless {}))
            .start()
            .unwrap();
        for round in 1..=3 {
            move_next(db, "a", -1_000 * (10 - round));
            eventually(SOON, "its job is discarded", || {
                running.counts().discarded == round.unsigned_abs()
            });
        }
    }
);

conformance!(
    fn a_schedule_that_cannot_fire_is_told_of_once_and_keeps_nobody_from_firing(db: &mut Db) {
        let mut conn = prepare(db);
        let refused = format!("b refused on {}", Db::BACKEND);
        let newer = format!("c newer on {}", Db::BACKEND);
        // The database refuses the jobs of one, and another one is a newer program's.
        match Db::BACKEND {
            "sqlite" => db.sql(
                "CREATE TRIGGER refuse BEFORE INSERT ON leasehold_jobs WHEN NEW.priority = -99
                 BEGIN SELECT RAISE(ABORT, 'refused'); END",
            ),
            _ => db.sql("ALTER TABLE leasehold.jobs ADD CONSTRAINT refused CHECK (priority <> -99)"),
        }
        let bad = leasehold::EnqueueOptions::new().priority(-99);
        let bad = Schedule::new(&refused, YEARLY).job_with(&Note { n: 1 }, &bad);
        for schedule in [yearly("a"), bad, yearly(&newer), yearly("d")] {
            schedule::put(&mut conn, &Schema::default(), &schedule).unwrap();
        }
        db.sql(&format!(
            "UPDATE leasehold.schedules SET cron = 'TEATIME' WHERE name = '{newer}'"
        ));
        for name in ["a", &refused, &newer, "d"] {
            move_next(db, name, -5_000);
        }
        let log = capture_log();
        let worker = Worker::<Connection, _>::new(db.url(), ()).sweep_interval(OFTEN);
        let _running = worker.register::<Note>().start().unwrap();
        for round in 1..=3 {
            eventually(SOON, "the others fire", || {
                fires(db, "a") == round && fires(db, "d") == round
            });
            if round < 3 {
                move_next(db, "a", -1_000 * (4 - round));
                move_next(db, "d", -1_000 * (4 - round));
            }
        }
        assert_eq!((fires(db, &refused), fires(db, &newer)), (0, 0));
        let said = |text: &str| log.with(text).len();
        assert_eq!(said(&format!("left to a newer program schedule=\"{newer}\"")), 1);
        assert_eq!(said(&format!("cannot fire schedule=\"{refused}\"")), 1);
        // Once the cause is gone, what it missed is run.
        match Db::BACKEND {
            "sqlite" => db.sql("DROP TRIGGER refuse"),
            _ => db.sql("ALTER TABLE leasehold.jobs DROP CONSTRAINT refused"),
        }
        eventually(SOON, "it fires", || fires(db, &refused) == 1);
    }
);
