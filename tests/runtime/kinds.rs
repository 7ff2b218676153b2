use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_tests::jobs::{Effects, Note, Step, Then, app, job, prepare};
use leasehold_tests::{TestDb, conformance};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// As an old program knows it.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct GreetV1 {
    name: String,
}

/// As a new program knows it.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet", version = 2, migrate = full_name)]
struct GreetV2 {
    first: String,
    last: String,
}

fn full_name(from: u32, old: Value) -> Result<Value, String> {
    assert_eq!(from, 1);
    let name = old["name"].as_str().ok_or("no name")?;
    let (first, last) = name.split_once(' ').ok_or("no last name")?;
    Ok(serde_json::json!({ "first": first, "last": last }))
}

/// The same job after a rename.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "welcome")]
struct Welcome {
    name: String,
}

impl<C: Effects> Handler<C> for GreetV1 {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        assert_eq!(self.name, "Ada Lovelace");
        lease.finish()
    }
}

impl<C: Effects> Handler<C> for GreetV2 {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        assert_eq!((self.first.as_str(), self.last.as_str()), ("Ada", "Lovelace"));
        lease.finish()
    }
}

impl<C: Effects> Handler<C> for Welcome {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
        assert_eq!(self.name, "Ada Lovelace");
        lease.finish()
    }
}

fn ada() -> GreetV1 {
    GreetV1 {
        name: "Ada Lovelace".to_owned(),
    }
}

conformance!(
    fn a_job_of_an_unknown_kind_waits_for_a_program_that_knows_it(db: &mut Db) {
        let mut conn = prepare(db);
        let unknown = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let known = Step::now(2, Then::Commit).enqueue(&mut conn).unwrap().id();
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).register::<Step>();
        assert_eq!(worker.run_until_empty().unwrap().counts.completed, 1);
        assert_eq!(job(&mut conn, known).state.as_str(), "completed");
        let waits = job(&mut conn, unknown);
        assert_eq!((waits.state.as_str(), waits.attempt, waits.generation), ("ready", 0, 0));
    }
);

conformance!(
    fn a_newer_payload_waits_for_a_newer_program_and_an_older_one_is_migrated(db: &mut Db) {
        let mut conn = prepare(db);
        let new = GreetV2 {
            first: "Ada".to_owned(),
            last: "Lovelace".to_owned(),
        };
        let new = new.enqueue(&mut conn).unwrap().id();
        let old_program = Worker::<Connection, _>::new(db.url(), ()).register::<GreetV1>();
        assert_eq!(old_program.run_until_empty().unwrap().counts.ended(), 0);
        assert_eq!(job(&mut conn, new).attempt, 0);
        let old = ada().enqueue(&mut conn).unwrap().id();
        let broken = GreetV1 { name: "Ada".to_owned() }.enqueue(&mut conn).unwrap().id();
        let new_program = Worker::<Connection, _>::new(db.url(), ()).register::<GreetV2>();
        let counts = new_program.run_until_empty().unwrap().counts;
        assert_eq!((counts.completed, counts.discarded), (2, 1));
        for id in [new, old] {
            assert_eq!(job(&mut conn, id).state.as_str(), "completed");
        }
        let reason = job(&mut conn, broken).reason.unwrap();
        assert!(
            reason.contains("version 1") && reason.contains("no last name"),
            "{reason}"
        );
    }
);

conformance!(
    fn a_payload_that_cannot_be_decoded_is_discarded_and_kept(db: &mut Db) {
        /// Another program's idea of the same kind.
        #[derive(Serialize, Deserialize, Job)]
        #[job(kind = "greet")]
        struct Other {
            names: Vec<String>,
        }
        let mut conn = prepare(db);
        let other = Other {
            names: vec!["Ada".to_owned()],
        };
        let id = other.enqueue(&mut conn).unwrap().id();
        let worker = Worker::<Connection, _>::new(db.url(), ()).register::<GreetV1>();
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.discarded, summary.counts.retried), (1, 0));
        assert!(!summary.is_success());
        let job = job(&mut conn, id);
        assert_eq!((job.state.as_str(), job.attempt), ("discarded", 1));
        assert_eq!(job.payload, r#"{"names":["Ada"]}"#);
        let reason = job.reason.unwrap();
        assert!(
            reason.contains("cannot be decoded") && reason.contains("name"),
            "{reason}"
        );
    }
);

conformance!(
    fn jobs_stored_under_a_former_name_run_as_the_renamed_type(db: &mut Db) {
        let mut conn = prepare(db);
        let stored = ada().enqueue(&mut conn).unwrap().id();
        let welcome = Welcome {
            name: "Ada Lovelace".to_owned(),
        };
        let new = welcome.enqueue(&mut conn).unwrap().id();
        let worker = Worker::<Connection, _>::new(db.url(), ());
        let worker = worker.register::<Welcome>().register_alias::<Welcome>("greet");
        assert_eq!(worker.run_until_empty().unwrap().counts.completed, 2);
        assert_eq!(job(&mut conn, stored).kind, "greet");
        assert_eq!(job(&mut conn, new).kind, "welcome");
    }
);
