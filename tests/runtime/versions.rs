//! Two releases of a program at the same time, one of which knows a newer payload of the same kind.

use leasehold_tests::jobs::{SOON, prepare};
use leasehold_tests::{TestDb, WorkerProcess, conformance, eventually};

const OLD: &str = env!("CARGO_BIN_EXE_leasehold-test-parcel-1");
const NEW: &str = env!("CARGO_BIN_EXE_leasehold-test-parcel-2");

/// Lets a program enqueue the parcels of these numbers.
#[track_caller]
fn enqueue(program: &mut WorkerProcess, numbers: std::ops::RangeInclusive<i64>) {
    for n in numbers.clone() {
        program.tell(&n.to_string());
    }
    for n in numbers {
        program.says(&format!("enqueued {n}"));
    }
}

/// How many parcels were delivered among these numbers, with an expected note.
fn delivered<D: TestDb>(db: &mut D, numbers: std::ops::RangeInclusive<i64>, note: &str) -> i64 {
    let (first, last) = numbers.into_inner();
    db.integer(&format!(
        "SELECT count(DISTINCT n) FROM parcels WHERE n BETWEEN {first} AND {last} AND {note}"
    ))
}

conformance!(
    fn a_new_payload_waits_for_the_new_program_and_either_runs_an_old_one(db: &mut Db) {
        prepare(db);
        db.sql("CREATE TABLE parcels (n bigint NOT NULL, program integer NOT NULL, town text NOT NULL)");
        let url = db.url();
        let mut old = WorkerProcess::start(OLD, "serve", &url);
        let mut new_web = WorkerProcess::start(NEW, "enqueue", &url);

        // The deploy begins: something enqueues new payloads, and only old workers run.
        enqueue(&mut new_web, 1..=5);
        enqueue(&mut old, 11..=15);
        eventually(SOON, "the old program runs the old payloads", || {
            delivered(db, 11..=15, "program = 1 AND town = 'Springfield'") == 5
        });
        let untouched = "SELECT count(*) FROM leasehold.jobs WHERE version = 2 AND state = 'ready' AND generation = 0";
        assert_eq!(db.integer(untouched), 5);

        // A new worker joins.
        let mut new = WorkerProcess::start(NEW, "serve", &url);
        eventually(SOON, "the new program runs the new payloads", || {
            delivered(db, 1..=5, "program = 2 AND town = 'Springfield'") == 5
        });
        enqueue(&mut new, 101..=130);
        enqueue(&mut old, 201..=230);
        eventually(SOON, "both run what they can", || {
            delivered(db, 101..=130, "program = 2") == 30
                && delivered(
                    db,
                    201..=230,
                    "(program = 1 AND town = 'Springfield' OR program = 2 AND town = 'Springfield (from version 1)')",
                ) == 30
        });

        // The last old worker is gone, killed or not, and something old still enqueues.
        old.kill();
        let mut old_web = WorkerProcess::start(OLD, "enqueue", &url);
        enqueue(&mut old_web, 21..=25);
        eventually(SOON, "the new program migrates old payloads", || {
            delivered(db, 21..=25, "program = 2 AND town = 'Springfield (from version 1)'") == 5
        });

        // Nothing is lost, and nothing was done twice.
        assert_eq!(db.integer("SELECT count(*) FROM parcels"), 75);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'"),
            75
        );
    }
);
