//! What each role may do, and what the database refuses it.

use std::time::Duration;

use diesel::PgConnection;
use diesel::connection::{Connection, SimpleConnection};
use leasehold::inspect::{self, ActionFilter, Filter, Held, State};
use leasehold::manage::{self, Cancel};
use leasehold::migrate::{Migrations, RoleNames};
use leasehold::outbox::{self, Event};
use leasehold::{Batch, EnqueueOptions, Job, Schema, Workflow, batch, check, inbox, migrate};
use leasehold_tests::TestDb;
use leasehold_tests::jobs::{Note, claim_and_die, finish};
use leasehold_tests::postgres::{Database, database};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "keep", unique(by = "account"))]
struct Keep {
    account: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "replace", unique(by = "account", on_conflict = "replace"))]
struct Replace {
    account: String,
    amount: i64,
}

/// A database with the queue's tables and roles of the test's own.
struct Roles {
    db: Database,
    prefix: String,
}

impl Roles {
    fn new(test: &str, change: impl FnOnce(RoleNames) -> RoleNames) -> Self {
        let mut db = database();
        migrate(&mut db.connect()).unwrap();
        let prefix = format!("{test}_{}", std::process::id());
        let names = change(RoleNames::new().prefix(&prefix).unwrap());
        let sql = Migrations::new().roles_sql(&names);
        // Again does no harm.
        for _ in 0..2 {
            db.sql(&format!("BEGIN; {sql} COMMIT"));
        }
        Self { db, prefix }
    }

    fn as_role(&self, role: &str) -> PgConnection {
        let mut conn = self.db.connect();
        conn.batch_execute(&format!("SET ROLE {}_{role}", self.prefix)).unwrap();
        conn
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        let prefix = &self.prefix;
        let all = format!("{prefix}_producer, {prefix}_worker, {prefix}_reader");
        self.db.sql(&format!("DROP OWNED BY {all} CASCADE; DROP ROLE {all}"));
    }
}

/// That the server refuses each of the statements for want of a right, and not for anything else.
#[track_caller]
fn assert_refused(conn: &mut PgConnection, statements: &[&str]) {
    for statement in statements {
        let error = conn.batch_execute(statement).expect_err(statement).to_string();
        let refused = error.contains("permission denied") || error.contains("must be owner");
        assert!(refused, "{statement}: {error}");
    }
}

#[test]
fn a_producer_enqueues_in_every_way_and_sees_what_comes_of_it() {
    let mut roles = Roles::new("enqueues", |names| names);
    let (mut conn, schema) = (roles.as_role("producer"), Schema::default());
    assert!(migrate(&mut conn).unwrap().is_empty());
    Migrations::new().check(&mut conn).unwrap();
    let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
    let once = EnqueueOptions::new().idempotency_key("once");
    assert!(Note { n: 2 }.enqueue_with(&mut conn, &once).unwrap().is_new());
    assert!(!Note { n: 2 }.enqueue_with(&mut conn, &once).unwrap().is_new());
    let keep = || Keep {
        account: "a".to_owned(),
    };
    assert!(keep().enqueue(&mut conn).unwrap().is_new());
    assert!(!keep().enqueue(&mut conn).unwrap().is_new());
    let replace = |amount| Replace {
        account: "a".to_owned(),
        amount,
    };
    let replaced = replace(1).enqueue(&mut conn).unwrap().id();
    assert_eq!(replace(2).enqueue(&mut conn).unwrap().id(), replaced);
    let payload = "SELECT payload::text FROM leasehold.jobs WHERE kind = 'replace'";
    assert!(roles.db.text(payload).unwrap().contains("\"amount\":2"));

    let notes = Batch::new("notes").add(&Note { n: 3 }).on_finished(&Note { n: 4 });
    let notes = notes.enqueue(&mut conn).unwrap().id;
    batch::add(&mut conn, &schema, notes, &Note { n: 7 }).unwrap();
    let record = batch::record(&mut conn, &schema, notes).unwrap().unwrap();
    assert_eq!(record.counts.total(), 2);
    let workflow = Workflow::new();
    let first = workflow.add(&Note { n: 5 });
    let _ = workflow.add(&Note { n: 6 }).after(first);
    workflow.enqueue(&mut conn).unwrap();
    outbox::emit(&mut conn, &schema, &Event::new("t", &1).key("k")).unwrap();
    conn.batch_execute("SELECT leasehold.enqueue('sql', '{}', '{\"idempotency_key\": \"k\"}')")
        .unwrap();
    let accepted = conn.transaction(|tx| inbox::accept(tx, &schema, "me", Uuid::new_v4()));
    assert!(accepted.unwrap());
    // What was withdrawn and replaced is not there twice.
    assert_eq!(roles.db.integer("SELECT count(*) FROM leasehold.jobs"), 10);

    let mut worker = roles.as_role("worker");
    let (_, fence) = claim_and_die::<Note, _>(&mut worker, true);
    assert!(finish(&mut worker, &fence));
    assert_eq!(
        inspect::job(&mut conn, &schema, id).unwrap().unwrap().state,
        State::Completed
    );
}

#[test]
fn a_producer_neither_claims_nor_completes_nor_deletes() {
    let roles = Roles::new("refused", |names| names);
    let (mut conn, schema) = (roles.as_role("producer"), Schema::default());
    let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
    let refused = manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "no")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    assert_refused(
        &mut conn,
        &[
            "UPDATE leasehold.jobs SET state = 'running', lease_token = gen_random_uuid(), worker = gen_random_uuid(), lease_until = now()",
            "UPDATE leasehold.jobs SET lease_until = now()",
            "UPDATE leasehold.jobs SET attempt = 0",
            "INSERT INTO leasehold.jobs (queue, kind, payload, state, max_attempts, lease_ms) VALUES ('q', 'k', '{}', 'running', 1, 1)",
            "DELETE FROM leasehold.jobs",
            "INSERT INTO leasehold.finished_jobs SELECT * FROM leasehold.finished_jobs",
            "DELETE FROM leasehold.finished_jobs",
            "INSERT INTO leasehold.job_results VALUES (1, 1, '{}')",
            "UPDATE leasehold.outbox_events SET state = 'dead'",
            "SELECT payload FROM leasehold.outbox_events",
            "INSERT INTO leasehold.pauses VALUES ('all', '', now(), 'me', 'because')",
            "INSERT INTO leasehold.actions (by, action, scope, target) VALUES ('me', 'pause', 'all', '')",
            "SELECT id FROM leasehold.actions",
            "DELETE FROM leasehold.schedules",
            "UPDATE leasehold.compatibility SET minimum_program = 0",
            "TRUNCATE leasehold.jobs",
            "DROP TABLE leasehold.jobs",
        ],
    );
    // With its rights of the owner it takes back nothing that somebody has.
    let (_, fence) = claim_and_die::<Note, _>(&mut roles.as_role("worker"), true);
    conn.batch_execute(&format!("SELECT leasehold.withdraw(ARRAY[{id}])"))
        .unwrap();
    assert!(finish(&mut roles.as_role("worker"), &fence));
}

#[test]
fn a_worker_has_all_rows_and_cannot_change_the_tables() {
    let mut roles = Roles::new("works", |names| names);
    let (mut conn, schema) = (roles.as_role("worker"), Schema::default());
    assert!(migrate(&mut conn).unwrap().is_empty());
    let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
    manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "no").unwrap();
    assert_eq!(
        inspect::job(&mut conn, &schema, id).unwrap().unwrap().state,
        State::Cancelled
    );
    let did = inspect::actions(&mut conn, &schema, &ActionFilter::new().job(id), None, 9).unwrap();
    assert_eq!(did.len(), 1);
    conn.batch_execute("DELETE FROM leasehold.actions").unwrap();
    assert_refused(
        &mut conn,
        &[
            "TRUNCATE leasehold.jobs",
            "DROP TABLE leasehold.jobs",
            "ALTER TABLE leasehold.jobs ADD COLUMN x integer",
            "CREATE TABLE leasehold.x ()",
            "CREATE INDEX ON leasehold.jobs (kind)",
            "ALTER FUNCTION leasehold.withdraw(bigint[]) SECURITY INVOKER",
            "DELETE FROM leasehold.migrations",
            "UPDATE leasehold.compatibility SET minimum_program = 0",
        ],
    );
    let pending = Migrations::in_schema(&Schema::named("other").unwrap()).up(&mut conn);
    let pending = pending.unwrap_err().to_string();
    assert!(pending.contains("permission denied"), "{pending}");
    // What a later migration makes is the worker's, too.
    roles
        .db
        .sql("CREATE TABLE leasehold.later (id bigint GENERATED BY DEFAULT AS IDENTITY)");
    conn.batch_execute("INSERT INTO leasehold.later DEFAULT VALUES")
        .unwrap();
}

#[test]
fn a_reader_counts_and_checks_but_writes_nothing_and_sees_no_payload() {
    let roles = Roles::new("reads", |names| names);
    let schema = Schema::default();
    let id = Note { n: 1 }.enqueue(&mut roles.as_role("producer")).unwrap().id();
    let _ = claim_and_die::<Note, _>(&mut roles.as_role("worker"), true);
    let mut conn = roles.as_role("reader");
    Migrations::new().check(&mut conn).unwrap();
    assert_eq!(inspect::counts(&mut conn, &schema).unwrap().len(), 1);
    assert!(inspect::errors(&mut conn, &schema, id).unwrap().is_empty());
    assert!(outbox::counts(&mut conn, &schema).unwrap().is_empty());
    assert!(manage::pauses(&mut conn, &schema).unwrap().is_empty());
    check::check(&mut conn, &schema).unwrap();
    glance(&mut conn, &schema, id);
    let refused = inspect::job(&mut conn, &schema, id).unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    assert_refused(
        &mut conn,
        &[
            "SELECT payload FROM leasehold.jobs",
            "SELECT payload FROM leasehold.finished_jobs",
            "SELECT payload FROM leasehold.outbox_events",
            "SELECT payload FROM leasehold.schedules",
            "SELECT result FROM leasehold.job_results",
            "SELECT result FROM leasehold.steps",
            "SELECT * FROM leasehold.jobs",
            "SELECT id FROM leasehold.jobs FOR UPDATE",
            "UPDATE leasehold.jobs SET priority = 1",
            "DELETE FROM leasehold.jobs",
            "SELECT leasehold.enqueue('k', '{}')",
            "SELECT leasehold.withdraw(ARRAY[1])",
            "SELECT nextval('leasehold.jobs_id_seq')",
        ],
    );
}

/// What shows no payload asks for no right to one.
fn glance(conn: &mut PgConnection, schema: &Schema, id: i64) {
    assert_eq!(inspect::queues(conn, schema).unwrap()[0].running.rows, 1);
    assert!(inspect::workers(conn, schema).unwrap().is_empty());
    assert_eq!(inspect::running(conn, schema, &Held::new(), 0, 10).unwrap()[0].id, id);
    assert_eq!(
        inspect::rates(conn, schema, Duration::from_secs(60), 5).unwrap().len(),
        5
    );
    assert!(inspect::failures(conn, schema, 10).unwrap().is_empty());
    assert!(
        inspect::actions(conn, schema, &ActionFilter::new(), None, 10)
            .unwrap()
            .is_empty()
    );
    assert!(inspect::life(conn, schema, id).unwrap().unwrap().lease.is_some());
    assert_eq!(inspect::waits(conn, schema, id, 10).unwrap().jobs.len(), 1);
    assert!(batch::list(conn, schema, None, 10).unwrap().is_empty());
    for filter in [
        Filter::new().error("x"),
        Filter::new().state(State::Running),
        Filter::new().state(State::Discarded),
    ] {
        inspect::search(conn, schema, &filter, None, 10).unwrap();
    }
    assert_eq!(inspect::by_idempotency_key(conn, schema, "x").unwrap(), None);
}

#[test]
fn a_reader_that_may_sees_payloads() {
    let roles = Roles::new("sees", RoleNames::reader_sees_payloads);
    let schema = Schema::default();
    let id = Note { n: 1 }.enqueue(&mut roles.as_role("producer")).unwrap().id();
    let mut conn = roles.as_role("reader");
    assert_eq!(inspect::job(&mut conn, &schema, id).unwrap().unwrap().id, id);
    assert_eq!(
        inspect::list(&mut conn, &schema, &Filter::new(), 0, 10).unwrap().len(),
        1
    );
    assert_refused(
        &mut conn,
        &["DELETE FROM leasehold.jobs", "UPDATE leasehold.jobs SET priority = 1"],
    );
}

#[test]
fn nobody_else_has_any_right() {
    let mut roles = Roles::new("others", |names| names);
    let stranger = format!("stranger_{}", std::process::id());
    roles.db.sql(&format!("CREATE ROLE {stranger}"));
    let mut conn = roles.db.connect();
    conn.batch_execute(&format!("SET ROLE {stranger}")).unwrap();
    assert_refused(
        &mut conn,
        &["SELECT id FROM leasehold.jobs", "SELECT leasehold.enqueue('k', '{}')"],
    );
    // Even where the schema is open to all.
    roles.db.sql("GRANT USAGE ON SCHEMA leasehold TO PUBLIC");
    assert_refused(
        &mut conn,
        &[
            "SELECT id FROM leasehold.jobs",
            "SELECT leasehold.enqueue('k', '{}')",
            "SELECT leasehold.withdraw(ARRAY[1])",
        ],
    );
    drop(conn);
    roles.db.sql(&format!("DROP ROLE {stranger}"));
}

#[test]
fn a_login_behind_a_pooler_gets_the_settings_that_its_program_cannot_make() {
    let mut db = database();
    migrate(&mut db.connect()).unwrap();
    let login = format!("pooled_{}", std::process::id());
    db.sql(&format!("CREATE ROLE {login}"));
    let roles = Roles::new("pools", |names| names.pooled_login(&login).unwrap());
    let settings = db.texts(&format!(
        "SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setrole = '{login}'::regrole ORDER BY 1"
    ));
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    assert_eq!(
        settings,
        [
            "default_transaction_isolation=read committed",
            "idle_in_transaction_session_timeout=60000ms",
            "lock_timeout=5s",
            "plan_cache_mode=force_generic_plan",
        ]
    );
    drop(roles);
    db.sql(&format!("DROP ROLE {login}"));
}

#[test]
fn a_role_has_a_plain_name() {
    for name in [
        "",
        "1a",
        "A",
        "a b",
        "a;drop",
        "a\"b",
        "pg_a",
        "public",
        &"a".repeat(49),
    ] {
        assert!(RoleNames::new().prefix(name).is_err(), "{name}");
        assert!(RoleNames::new().pooled_login(name).is_err(), "{name}");
    }
}

#[test]
fn another_schema_has_its_own_roles() {
    let mut db = database();
    let schema = Schema::named("billing").unwrap();
    let migrations = Migrations::in_schema(&schema);
    migrations.up(&mut db.connect()).unwrap();
    let prefix = format!("billing_{}", std::process::id());
    let names = RoleNames::new().prefix(&prefix).unwrap();
    db.sql(&migrations.roles_sql(&names));
    let mut conn = db.connect();
    conn.batch_execute(&format!("SET ROLE {prefix}_producer")).unwrap();
    Note { n: 1 }
        .enqueue_with(&mut conn, &EnqueueOptions::new().schema(&schema).idempotency_key("k"))
        .unwrap();
    drop(conn);
    let all = format!("{prefix}_producer, {prefix}_worker, {prefix}_reader");
    db.sql(&format!("DROP OWNED BY {all} CASCADE; DROP ROLE {all}"));
}
