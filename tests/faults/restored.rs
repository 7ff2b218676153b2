//! A backup is put back while a worker that knows what came after it runs on.

use std::time::Duration;

use leasehold::{EnqueueOptions, Enqueued, Job, Refusal, Worker};
use leasehold_tests::jobs::{App, Note, SOON, Step, app, claim_and_die, finish, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

const TABLES: [&str; 4] = [
    "leasehold.jobs",
    "leasehold.finished_jobs",
    "leasehold.unique_keys",
    "effects",
];

/// Copies what a backup would.
fn back_up<Db: TestDb>(db: &mut Db) {
    for (number, table) in TABLES.iter().enumerate() {
        db.sql(&format!("CREATE TABLE backup_{number} AS SELECT * FROM {table}"));
    }
}

/// The tables as they were, and the numbers for new jobs: all at once, as a restore into new tables is for whoever comes after it.
fn restore<Db: TestDb>(db: &mut Db) {
    let tables = TABLES.iter().enumerate();
    let rows: Vec<String> = tables
        .map(|(number, table)| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM backup_{number}"))
        .collect();
    let numbers = match Db::BACKEND {
        "sqlite" => {
            "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(id), 0) FROM leasehold.jobs) WHERE name = 'leasehold_jobs'"
        }
        _ => {
            "SELECT setval(pg_get_serial_sequence('leasehold.jobs', 'id'), coalesce(max(id), 0) + 1, false) FROM leasehold.jobs"
        }
    };
    db.sql(&format!("BEGIN; {}; {numbers}; COMMIT", rows.join("; ")));
}

conformance!(
    fn a_worker_that_outlives_a_restore_commits_nothing_of_a_job_that_was_claimed_anew(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().lease(Duration::from_secs(15));
        let id = Step::waiting(1).enqueue_with(&mut conn, &options).unwrap().id();
        back_up(db);
        let (survivor_app, survivor) = app();
        // No thread is left for what the restore brings back.
        let survives = Worker::<Connection, App>::new(db.url(), survivor_app)
            .threads(1)
            .unbatched();
        let survives = survives.register::<Step>().start().unwrap();
        let told = survivor.begun();

        restore(db);
        let (owner_app, owner) = app();
        let owns = Worker::<Connection, App>::new(db.url(), owner_app).threads(1);
        let owns = owns.register::<Step>().start().unwrap();
        let owned = owner.begun();
        assert_eq!((owned.id, owned.generation), (told.id, told.generation), "told twice");

        // By a heartbeat, and long before the lease runs out.
        eventually(SOON, "it is told", || told.watch.is_lost());
        assert!(told.watch.remaining() > Duration::ZERO);
        told.go();
        let refusal = survivor.ended().refusal;
        assert!(matches!(refusal, Some(Refusal::DurabilityLoss { .. })), "{refusal:?}");
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        survives.shutdown(SOON);
        owned.go();
        eventually(SOON, "the owner has completed it", || owns.counts().completed == 1);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
        assert_eq!(job(&mut conn, id).generation, 1);
    }
);

conformance!(
    fn a_lease_of_a_backup_runs_out_and_is_refused_then(db: &mut Db) {
        let mut conn = prepare(db);
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        let (_, told) = claim_and_die::<Note, Connection>(&mut conn, true);
        back_up(db);
        // What was completed after the backup is undone, its writes with it.
        db.sql("INSERT INTO effects VALUES (1)");
        assert!(finish(&mut conn, &told));

        restore(db);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 0);
        db.set_time("leasehold.jobs", "lease_until", -1000, "state = 'running'");
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<Note>();
        let summary = worker.run_until_empty().unwrap();
        assert_eq!(summary.counts.completed, 1);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
        assert!(!finish(&mut conn, &told), "the job is at generation 3");
        assert_eq!(job(&mut conn, told.id).generation, 3);
    }
);

conformance!(
    fn an_id_that_a_restore_gives_out_again_is_another_job(db: &mut Db) {
        let mut conn = prepare(db);
        back_up(db);
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        let (forgotten, told) = claim_and_die::<Note, Connection>(&mut conn, true);

        restore(db);
        assert_eq!(Note { n: 2 }.enqueue(&mut conn).unwrap(), Enqueued::New { id: told.id });
        let (row, owned) = claim_and_die::<Note, Connection>(&mut conn, true);
        assert_eq!((owned.id, owned.generation), (told.id, told.generation), "told twice");
        assert_ne!(row.idempotency_key, forgotten.idempotency_key);
        assert!(!finish(&mut conn, &told));
        assert!(finish(&mut conn, &owned));
    }
);
