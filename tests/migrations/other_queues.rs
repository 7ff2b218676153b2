//! The guide's SQL for the rows of other queues, run on their tables.

use std::fs;
use std::path::Path;

use leasehold::migrate;
use leasehold_tests::TestDb;
use leasehold_tests::postgres::{Database, database};

/// The one block of SQL in a chapter of the guide.
/// The blocks of SQL in a chapter.
fn sql_of<const N: usize>(chapter: &str) -> [String; N] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/guide")
        .join(chapter);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("\n```sql\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned()));
    blocks.collect::<Vec<_>>().try_into().unwrap()
}

fn jobs(db: &mut Database) -> Vec<Option<String>> {
    db.texts(
        "SELECT concat_ws(' ', kind, queue, payload, priority, max_attempts, scheduled, idempotency_key)
         FROM leasehold.jobs ORDER BY id",
    )
}

fn migrated() -> Database {
    let db = database();
    migrate(&mut db.connect()).unwrap();
    db
}

/// Version 0.11.0, `postgres_migrations`; the ids are given, so no extension is needed.
const FANG: &str = r#"
    CREATE TYPE fang_task_state AS ENUM ('new', 'in_progress', 'failed', 'finished', 'retried');
    CREATE TABLE fang_tasks (
        id uuid PRIMARY KEY,
        metadata jsonb NOT NULL,
        error_message text,
        state fang_task_state DEFAULT 'new' NOT NULL,
        task_type text DEFAULT 'common' NOT NULL,
        uniq_hash text,
        retries integer DEFAULT 0 NOT NULL,
        scheduled_at timestamptz NOT NULL DEFAULT now(),
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now()
    );
    INSERT INTO fang_tasks (id, metadata, state, retries, scheduled_at) VALUES
        ('00000000-0000-0000-0000-000000000001', '{"type": "SendMail", "to": "ada"}', 'new', 0, now()),
        ('00000000-0000-0000-0000-000000000002', '{"type": "SendMail", "to": "bob"}', 'retried', 4, now() + interval '1 hour'),
        ('00000000-0000-0000-0000-000000000003', '{"type": "SendMail", "to": "cyd"}', 'finished', 0, now()),
        ('00000000-0000-0000-0000-000000000004', '{"type": "SendMail", "to": "dot"}', 'in_progress', 0, now()),
        ('00000000-0000-0000-0000-000000000005', '{"type": "Other"}', 'new', 0, now())
"#;

#[test]
fn waiting_tasks_of_fang_are_moved_with_their_times_and_what_is_left_of_their_attempts() {
    let mut db = migrated();
    db.sql(FANG);
    let [by_the_program, in_sql] = sql_of("from-fang.md");
    let by_the_program = by_the_program.replace("$1", "'SendMail'");
    let read = "SELECT concat_ws(' ', id, metadata, pg_typeof(metadata), scheduled_at <= extract(epoch FROM now())) FROM moved";
    db.sql("CREATE TABLE kept AS SELECT * FROM fang_tasks");
    db.sql("CREATE TABLE told (line text)");
    db.sql(&format!("WITH moved AS ({by_the_program}) INSERT INTO told {read}"));
    let told = db.texts("SELECT line FROM told ORDER BY line");
    let told: Vec<&str> = told.iter().flatten().map(String::as_str).collect();
    assert_eq!(
        told,
        [
            r#"00000000-0000-0000-0000-000000000001 {"to": "ada", "type": "SendMail"} text t"#,
            r#"00000000-0000-0000-0000-000000000002 {"to": "bob", "type": "SendMail"} text f"#,
        ]
    );
    db.sql("DELETE FROM fang_tasks; INSERT INTO fang_tasks SELECT * FROM kept");
    db.sql(&in_sql);
    let moved = jobs(&mut db);
    let moved: Vec<&str> = moved.iter().flatten().map(String::as_str).collect();
    assert_eq!(
        moved,
        [
            r#"send-mail mail {"to": "ada"} 0 6 f 00000000-0000-0000-0000-000000000001"#,
            r#"send-mail mail {"to": "bob"} 0 2 t 00000000-0000-0000-0000-000000000002"#,
        ]
    );
    assert_eq!(db.integer("SELECT count(*) FROM fang_tasks"), 3);
}

/// The columns of `apalis.jobs` in apalis-postgres 1.0.0 that are read.
const APALIS: &str = r#"
    CREATE SCHEMA apalis;
    CREATE TABLE apalis.jobs (
        job bytea NOT NULL,
        id text PRIMARY KEY,
        job_type text NOT NULL,
        status text NOT NULL DEFAULT 'Pending',
        attempts integer NOT NULL DEFAULT 0,
        max_attempts integer NOT NULL DEFAULT 25,
        run_at timestamptz NOT NULL DEFAULT now(),
        priority integer DEFAULT 0,
        idempotency_key text
    );
    INSERT INTO apalis.jobs (id, job, job_type, status, attempts, max_attempts, run_at, priority, idempotency_key) VALUES
        ('01A', '{"to":"ada"}', 'email', 'Pending', 0, 5, now(), 3, NULL),
        ('01B', '{"to":"bob"}', 'email', 'Queued', 0, 5, now() + interval '1 hour', 99999, 'order-7'),
        ('01C', '{"to":"cyd"}', 'email', 'Failed', 2, 5, now(), 0, NULL),
        ('01D', '{"to":"dot"}', 'email', 'Failed', 5, 5, now(), 0, NULL),
        ('01E', '{"to":"eve"}', 'email', 'Done', 1, 5, now(), 0, NULL),
        ('01F', '{"to":"fay"}', 'email', 'Running', 1, 5, now(), 0, NULL),
        ('01G', '{}', 'other', 'Pending', 0, 5, now(), 0, NULL)
"#;

#[test]
fn waiting_tasks_of_apalis_are_moved_with_their_times_priorities_and_keys() {
    let mut db = migrated();
    db.sql(APALIS);
    let [move_them] = sql_of("from-apalis.md");
    db.sql(&move_them);
    let moved = jobs(&mut db);
    let moved: Vec<&str> = moved.iter().flatten().map(String::as_str).collect();
    assert_eq!(
        moved,
        [
            r#"email email {"to":"ada"} 3 5 f 01A"#,
            r#"email email {"to":"bob"} 32767 5 t order-7"#,
            r#"email email {"to":"cyd"} 0 3 f 01C"#,
        ]
    );
    assert_eq!(db.integer("SELECT count(*) FROM apalis.jobs"), 4);
}
