//! Another schema beside the default one, in the same database: both work, and nothing crosses.

use std::time::Duration;

use leasehold::__private::Fence;
use leasehold::inspect;
use leasehold::manage::{self, Cancel};
use leasehold::migrate::Migrations;
use leasehold::testing::Runner;
use leasehold::{Counts, EnqueueOptions, Enqueued, Job, JobError, LeaseGuard, Outcome, Schema};

use crate::support::*;

/// A connection to a database with the default schema, `billing` and `leasehold_2`.
fn three<D: TestDb>(db: &mut D) -> (D::Connection, [Schema; 3]) {
    let mut conn = migrated(db);
    let schemas = [
        Schema::default(),
        Schema::named("billing").unwrap(),
        Schema::named("leasehold_2").unwrap(),
    ];
    for schema in &schemas[1..] {
        Migrations::in_schema(schema).up(&mut conn).unwrap();
    }
    (conn, schemas)
}

fn table_of(schema: &Schema, table: &str, backend: &str) -> std::string::String {
    let separator = if backend == "postgres" { "." } else { "_" };
    format!("{}{separator}{table}", schema.name())
}

/// How many jobs each schema has, ended ones included.
fn totals<C: Backend>(conn: &mut C, schemas: &[Schema]) -> Vec<u64> {
    let total = |schema| {
        inspect::counts(conn, schema)
            .unwrap()
            .iter()
            .map(|count| count.jobs)
            .sum()
    };
    schemas.iter().map(total).collect()
}

fn run_in<C: Backend>(
    conn: &mut C,
    schema: &Schema,
    handler: impl for<'j> Fn(Note, LeaseGuard<'j, C>) -> Outcome<'j>,
) -> Counts {
    Runner::<C, _>::new(handler)
        .schema(schema)
        .register::<Note>()
        .drain(conn)
        .unwrap()
}

conformance!(
    fn jobs_of_one_schema_are_not_seen_by_another(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        for (number, schema) in schemas.iter().enumerate() {
            let options = EnqueueOptions::new().schema(schema);
            let notes: Vec<Note> = (0..=number).map(|_| note(schema.name())).collect();
            Job::enqueue_all(&notes, &mut conn, &options).unwrap();
        }
        assert_eq!(totals(&mut conn, &schemas), [1, 2, 3]);
        let serves = [served("default", "note", 1)];
        let waiting = schemas
            .each_ref()
            .map(|schema| conn.waiting(schema, &serves, 10).unwrap().ready);
        assert_eq!(waiting, [1, 2, 3]);
        for (number, schema) in schemas.iter().enumerate() {
            let counts = run_in(&mut conn, schema, |note, lease| {
                assert_eq!(note.text, schema.name());
                lease.commit(|_| Ok(()))
            });
            assert_eq!(counts.completed, u64::try_from(number).unwrap() + 1);
            assert_eq!(run_in(&mut conn, schema, |_, lease| lease.finish()).ended(), 0);
        }
        assert_eq!(totals(&mut conn, &schemas), [1, 2, 3]);
    }
);

conformance!(
    fn a_schema_has_the_very_name_that_was_chosen(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        for schema in &schemas {
            note("x")
                .enqueue_with(&mut conn, &EnqueueOptions::new().schema(schema))
                .unwrap();
            let table = table_of(schema, "jobs", Db::BACKEND);
            assert_eq!(db.integer(&format!("SELECT count(*) FROM {table}")), 1);
        }
    }
);

/// Puts one note into each schema, claims all, and returns the fences with ids that are the same in all.
fn claimed_in<C: Backend>(conn: &mut C, schemas: &[Schema]) -> Vec<Fence> {
    let claim = |schema: &Schema| {
        note("x")
            .enqueue_with(conn, &EnqueueOptions::new().schema(schema))
            .unwrap();
        let serves = [served("default", "note", 1)];
        let request = request(&serves, 10);
        let rows = conn.claim(schema, &request).unwrap();
        fence_of(&rows[0], request.lease_token)
    };
    let fences: Vec<Fence> = schemas.iter().map(claim).collect();
    assert!(fences.iter().all(|fence| fence.id == fences[0].id));
    fences
}

conformance!(
    /// Every statement is written for the default name; one that is not rendered would reach the other schema's row.
    fn every_statement_stays_in_its_schema(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        let [_, billing, _] = &schemas;
        let state = |conn: &mut Connection, schema: &Schema, id| format!("{:?}", conn.job(schema, id).unwrap());
        type Statement<C> = fn(&mut C, &Schema, &Fence) -> usize;
        let statements: [(&str, Statement<Connection>); 15] = [
            ("begin", |conn, schema, fence| {
                conn.begin(schema, &[*fence]).unwrap().len()
            }),
            ("heartbeat", |conn, schema, fence| {
                conn.heartbeat(schema, &[*fence]).unwrap().len()
            }),
            ("finish", |conn, schema, fence| {
                conn.finish(schema, &[*fence]).unwrap().len()
            }),
            ("put back", |conn, schema, fence| {
                let error = Some(AttemptError {
                    cause: "error",
                    error: "e".to_owned(),
                });
                conn.put_back(
                    schema,
                    fence,
                    &PutBack {
                        error,
                        ..crate::fence::put_back()
                    },
                )
                .unwrap()
            }),
            ("end", |conn, schema, fence| {
                let error = Some(AttemptError {
                    cause: "error",
                    error: "e".to_owned(),
                });
                conn.end(
                    schema,
                    fence,
                    &End {
                        state: "discarded",
                        reason: None,
                        takes_away: true,
                        error,
                    },
                )
                .unwrap()
            }),
            ("release", |conn, schema, fence| {
                conn.release(schema, &[*fence]).unwrap().len()
            }),
            ("request cancel", |conn, schema, fence| {
                conn.request_cancel(schema, &[fence.id]).unwrap().len()
            }),
            ("cancel", |conn, schema, fence| {
                usize::from(manage::cancel(conn, schema, fence.id, Cancel::Hard, "ops", "no").unwrap())
            }),
            ("sweep", |conn, schema, fence| {
                conn.expire_lease(schema, fence.id).unwrap();
                conn.sweep(schema, 10).unwrap().len()
            }),
            ("find claimed", |conn, schema, fence| {
                conn.find_claimed(schema, fence.lease_token).unwrap().len()
            }),
            ("ownership", |conn, schema, fence| {
                let token = conn.ownership(schema, fence.id).unwrap().unwrap().lease_token;
                usize::from(token == Some(fence.lease_token.to_string()))
            }),
            ("lock ownership", |conn, schema, fence| {
                let token = conn.lock_ownership(schema, fence.id).unwrap().unwrap().lease_token;
                usize::from(token == Some(fence.lease_token.to_string()))
            }),
            ("waiting", |conn, schema, _| {
                let waiting = conn.waiting(schema, &[served("default", "note", 1)], 10).unwrap();
                usize::try_from(waiting.running).unwrap()
            }),
            ("promote", |conn, schema, fence| {
                conn.put_back(
                    schema,
                    fence,
                    &PutBack {
                        delay_ms: 1,
                        ..crate::fence::put_back()
                    },
                )
                .unwrap();
                std::thread::sleep(Duration::from_millis(3)); // until it is due
                conn.promote(schema, &[served("default", "note", 1)], 10).unwrap()
            }),
            ("open jobs", |conn, schema, _| {
                conn.open_jobs(schema, "note").unwrap().len()
            }),
        ];
        for (name, statement) in statements {
            for schema in &schemas {
                while let Some(job) = conn.open_jobs(schema, "note").unwrap().first() {
                    assert_eq!(
                        conn.end_open(schema, &[job.id], true, leasehold::inspect::State::Cancelled, "next")
                            .unwrap(),
                        [job.id],
                        "before {name}"
                    );
                }
            }
            let fences = claimed_in(&mut conn, &schemas);
            let id = fences[0].id;
            let before = [&schemas[0], &schemas[2]].map(|schema| state(&mut conn, schema, id));
            let errors = conn.job_errors(&schemas[0], id).unwrap().len();
            assert_eq!(statement(&mut conn, billing, &fences[1]), 1, "{name}");
            let after = [&schemas[0], &schemas[2]].map(|schema| state(&mut conn, schema, id));
            assert_eq!(after, before, "{name}");
            assert_eq!(conn.job_errors(&schemas[0], id).unwrap().len(), errors, "{name}");
        }
    }
);

conformance!(
    fn keys_of_one_schema_are_free_in_another(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        for (number, schema) in schemas.iter().enumerate() {
            // The same id would hide an answer from another schema.
            let others = vec![note("other"); 3 * number + 1];
            Job::enqueue_all(&others, &mut conn, &EnqueueOptions::new().schema(schema)).unwrap();
            let keyed = EnqueueOptions::new().schema(schema).idempotency_key("key");
            let first = note("keyed").enqueue_with(&mut conn, &keyed).unwrap();
            assert!(first.is_new(), "{schema:?}");
            let again = note("keyed").enqueue_with(&mut conn, &keyed).unwrap();
            assert_eq!(again, Enqueued::Existing { id: first.id() });
        }
        assert_eq!(totals(&mut conn, &schemas), [2, 5, 8]);
        // Expired in the second one alone, and there alone it is free again.
        let table = table_of(&schemas[1], "unique_keys", Db::BACKEND);
        db.set_time(&table, "expires_at", -1000, "job_id > 0");
        for (schema, is_free) in schemas.iter().zip([false, true, false]) {
            let keyed = EnqueueOptions::new().schema(schema).idempotency_key("key");
            assert_eq!(note("keyed").enqueue_with(&mut conn, &keyed).unwrap().is_new(), is_free);
        }
        db.set_time(&table, "expires_at", -1000, "job_id > 0");
        assert_eq!(conn.sweep_keys(&schemas[0], 10).unwrap(), 0);
        assert_eq!(conn.sweep_keys(&schemas[1], 10).unwrap(), 1);
    }
);

conformance!(
    fn worker_processes_show_themselves_in_their_own_schema(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        let worker = WorkerRow {
            id: uuid::Uuid::new_v4(),
            host: "host".to_owned(),
            pid: 1,
            threads: 1,
            queues: Vec::new(),
            kinds: vec![("note".to_owned(), 1)],
        };
        let mut shown = |schema: &Schema| {
            db.integer(&format!(
                "SELECT count(*) FROM {}",
                table_of(schema, "workers", Db::BACKEND)
            ))
        };
        conn.show_worker(&schemas[1], &worker).unwrap();
        assert_eq!(schemas.each_ref().map(&mut shown), [0, 1, 0]);
        conn.show_worker(&schemas[0], &worker).unwrap();
        conn.hide_worker(&schemas[1], worker.id).unwrap();
        assert_eq!(schemas.each_ref().map(&mut shown), [1, 0, 0]);
    }
);

conformance!(
    fn failures_and_commits_of_a_named_schema_are_kept_there(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        let billing = &schemas[1];
        let options = EnqueueOptions::new().schema(billing);
        let id = note("x").enqueue_with(&mut conn, &options).unwrap().id();
        assert!(inspect::job(&mut conn, billing, id).unwrap().is_some());
        assert!(inspect::job(&mut conn, &schemas[0], id).unwrap().is_none());
        run_in(&mut conn, billing, |_, _| Err(JobError::retry("first")));
        assert_eq!(inspect::errors(&mut conn, billing, id).unwrap()[0].error, "first");
        conn.move_run_at(billing, id, 0).unwrap();
        let counts = run_in(&mut conn, billing, |_, lease| {
            lease.strict().commit(|tx| Ok(write(tx, 1)?))
        });
        assert_eq!(counts.completed, 1);
        assert_eq!(written(db), [1]);
        assert_eq!(totals(&mut conn, &schemas), [0, 1, 0]);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 0);
    }
);

conformance!(
    fn one_schema_goes_and_the_others_stay(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        for schema in &schemas {
            note("x")
                .enqueue_with(&mut conn, &EnqueueOptions::new().schema(schema))
                .unwrap();
        }
        assert!(
            !Migrations::in_schema(&schemas[1])
                .down_all(&mut conn)
                .unwrap()
                .is_empty()
        );
        assert!(inspect::counts(&mut conn, &schemas[1]).is_err());
        assert_eq!(totals(&mut conn, &[schemas[0].clone(), schemas[2].clone()]), [1, 1]);
    }
);

conformance!(
    fn the_least_program_that_may_run_is_each_schemas_own(db: &mut Db) {
        let (mut conn, schemas) = three(db);
        db.sql("UPDATE leasehold.compatibility SET minimum_program = 99");
        let minima = schemas.each_ref().map(|schema| {
            let status = Migrations::in_schema(schema).status(&mut conn).unwrap();
            status.minimum_program
        });
        assert_eq!(minima, [Some(99), Some(1), Some(1)]);
        assert!(Migrations::in_schema(&schemas[0]).up(&mut conn).is_err());
        assert!(Migrations::in_schema(&schemas[1]).up(&mut conn).unwrap().is_empty());
    }
);

#[test]
fn only_plain_names_can_name_a_schema() {
    for name in ["a", "billing_2", "x0123456789012345678901234567890_"] {
        assert_eq!(Schema::named(name).is_ok(), name.len() <= 32, "{name}");
    }
    let long = "x".repeat(33);
    for name in [
        "",
        "1a",
        "_a",
        "A",
        "a-b",
        "a.b",
        "a b",
        "a\"b",
        "a;drop table x",
        "é",
        "pg_jobs",
        &long,
    ] {
        let refused = Schema::named(name).unwrap_err();
        assert!(refused.to_string().contains("cannot name a schema"), "{name}");
    }
    assert_eq!(Schema::named("leasehold").unwrap(), Schema::default());
    assert_ne!(Schema::named("leasehold2").unwrap(), Schema::default());
}
