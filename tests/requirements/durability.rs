//! A generation alone is not a fence: what a database forgets, it gives out again.

use leasehold::__private::Fence;
use leasehold::__private::*;
use leasehold::{Refusal, Schema};

use crate::jobs::{claim, complete, enqueue};
use crate::story::{How, commit_in_worker};

#[cfg(feature = "postgres")]
mod postgres {
    use std::sync::{Arc, Mutex};

    use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
    use diesel::prelude::*;
    use leasehold_tests::eventually;
    use leasehold_tests::postgres::{Cluster, cluster_with};

    use super::*;
    use crate::jobs::{SOON, roll_back};
    use crate::session::Session;

    /// Nothing but a durable commit flushes within a test: the WAL writer sleeps for as long as it can.
    const FORGETFUL: [&str; 4] = [
        "synchronous_commit=off",
        "wal_writer_delay=10s",
        "autovacuum=off",
        "bgwriter_delay=10s",
    ];

    fn session(cluster: &Cluster) -> Session {
        Session::new(PgConnection::establish(&cluster.url()).unwrap())
    }

    /// A cluster that is made anew by each test, so that it can be crashed; with the tables, and durable so far.
    fn forgetful() -> Cluster {
        let cluster = cluster_with(&FORGETFUL);
        let mut setup = session(&cluster);
        leasehold::migrate(&mut setup.conn).unwrap();
        setup.run("CREATE TABLE business (writer text NOT NULL)");
        durable(&mut setup);
        cluster
    }

    /// A synchronous commit makes every earlier one durable, too.
    fn durable(session: &mut Session) {
        session.run("BEGIN; SET LOCAL synchronous_commit = on; CREATE TABLE flushed (); DROP TABLE flushed; COMMIT");
    }

    const ROW: &str = "SELECT state || '/' || generation FROM leasehold.jobs";

    /// The claim without what makes it durable.
    fn naive_claim(session: &mut Session) -> Fence {
        let lease_token = uuid::Uuid::new_v4();
        session.run(&format!(
            "UPDATE leasehold.jobs SET state = 'running', generation = generation + 1, lease_token = '{lease_token}',
                attempt = attempt + 1, worker = gen_random_uuid(), begun = true,
                lease_until = clock_timestamp() + interval '1 minute' WHERE state = 'ready'"
        ));
        let id = session.integer("SELECT id FROM leasehold.jobs");
        let generation = session.integer("SELECT generation FROM leasehold.jobs");
        Fence {
            id,
            generation,
            lease_token,
        }
    }

    #[test]
    fn s0_12_after_a_crash_the_same_generation_is_told_twice_and_only_the_token_tells_the_workers_apart() {
        let mut cluster = forgetful();
        // The WAL writer wakes every ten seconds: a claim that it happened to flush is no claim that was lost.
        let (told_z, id) = (0..10)
            .find_map(|_| {
                let mut setup = session(&cluster);
                setup.run("DELETE FROM leasehold.jobs");
                let id = enqueue(&mut setup.conn, 1)[0];
                durable(&mut setup);
                let told = naive_claim(&mut setup);
                cluster.crash();
                cluster.start_again();
                let row = session(&cluster).text(ROW);
                (row.as_deref() == Some("ready/0")).then_some((told, id))
            })
            .expect("the crash forgets a claim that was acknowledged");
        let mut z = session(&cluster);
        let told_b = claim(&mut z.conn);
        assert_eq!(
            (told_b.id, told_b.generation),
            (told_z.id, told_z.generation),
            "told twice"
        );
        assert_eq!(z.text(ROW).as_deref(), Some("running/1"));

        let alone = format!(
            "WHERE id = {id} AND generation = {} AND state = 'running'",
            told_z.generation
        );
        z.run("BEGIN");
        assert_eq!(
            z.rows(&format!(
                "UPDATE leasehold.jobs SET lease_until = clock_timestamp() {alone}"
            )),
            1,
            "heartbeat"
        );
        assert_eq!(z.rows(&format!("DELETE FROM leasehold.jobs {alone}")), 1, "completion");
        z.run("ROLLBACK");

        assert_eq!(z.conn.heartbeat(&Schema::default(), &[told_z]).unwrap(), []);
        assert_eq!(complete(&mut z.conn, &told_z, false), Completion::Refused);
        assert_eq!(complete(&mut z.conn, &told_b, false), Completion::Completed);
    }

    #[test]
    fn s0_17_a_worker_whose_claim_a_crash_forgot_is_told_so() {
        let cluster = forgetful();
        // Our claim is durable by itself; without the function that it asks for it, it is not.
        let mut setup = session(&cluster);
        setup.run(
            "ALTER FUNCTION pg_catalog.set_config(text, text, boolean) RENAME TO real_set_config;
             CREATE FUNCTION pg_catalog.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT $2'",
        );
        let url = cluster.url();
        let cluster = Arc::new(Mutex::new(cluster));
        let ended = (0..10).find_map(|_| {
            let mut setup = Session::new(PgConnection::establish(&url).unwrap());
            enqueue(&mut setup.conn, 1);
            durable(&mut setup);
            let cluster = Arc::clone(&cluster);
            let ended = commit_in_worker::<PgConnection>(url.clone(), How::default(), move |_, _| {
                let mut cluster = cluster.lock().unwrap();
                cluster.crash();
                cluster.start_again();
                let mut b = session(&cluster);
                if b.text(ROW).as_deref() == Some("ready/0") {
                    assert_eq!(claim(&mut b.conn).generation, 1);
                }
            });
            // Completed, where the WAL writer happened to flush the claim.
            ended.err()
        });
        // A heartbeat may have met the row before the other claimed it.
        let told = matches!(ended, Some(Refusal::DurabilityLoss { generation: 0 | 1 }));
        assert!(told, "{ended:?}");
        assert_eq!(
            session(&cluster.lock().unwrap()).text(ROW).as_deref(),
            Some("running/1")
        );
    }

    #[test]
    fn s0_04_our_claim_survives_a_crash_whatever_the_session_says_and_changes_nothing_in_it() {
        let mut cluster = forgetful();
        let mut worker = session(&cluster);
        enqueue(&mut worker.conn, 1);
        let told = claim(&mut worker.conn);
        assert_eq!(worker.text("SHOW synchronous_commit").as_deref(), Some("off"));
        cluster.crash();
        cluster.start_again();
        let mut after = session(&cluster);
        assert_eq!(after.text(ROW).as_deref(), Some("running/1"));
        assert_eq!(
            complete(&mut after.conn, &told, false),
            Completion::Completed,
            "the rightful owner"
        );

        // The same where the kernel kills another session's process.
        durable(&mut after);
        enqueue(&mut after.conn, 1);
        let told = claim(&mut after.conn);
        cluster.kill_backend(i32::try_from(session(&cluster).pid).unwrap());
        eventually(SOON, "the crash ends every session", || {
            after.conn.batch_execute("SELECT 1").is_err()
        });
        eventually(SOON, "the server has recovered", || {
            PgConnection::establish(&cluster.url()).is_ok_and(|mut conn| conn.batch_execute("SELECT 1").is_ok())
        });
        assert_eq!(
            complete(&mut session(&cluster).conn, &told, false),
            Completion::Completed
        );
    }

    /// One that is forgotten is an effect that happens again.
    #[test]
    fn the_record_of_a_step_survives_a_crash_whatever_the_session_says() {
        let mut cluster = forgetful();
        // The WAL writer wakes every ten seconds: where it happened to flush the later commit, too, nothing is shown.
        let forgot = (0..10).any(|n| {
            let mut worker = session(&cluster);
            let name = format!("step {n}");
            enqueue(&mut worker.conn, 1);
            let fence = claim(&mut worker.conn);
            worker.run(&format!("INSERT INTO business VALUES ('before {name}')"));
            worker.conn.begin_write().unwrap();
            let step = step(&name);
            let recorded = worker.conn.record_step(&Schema::default(), &fence, &step);
            assert_eq!(recorded.unwrap(), 1);
            AnsiTransactionManager::commit_transaction(&mut worker.conn).unwrap();
            assert_eq!(worker.text("SHOW synchronous_commit").as_deref(), Some("off"));
            worker.run(&format!("INSERT INTO business VALUES ('{name}')"));
            cluster.crash();
            cluster.start_again();
            let mut after = session(&cluster);
            let rows = |after: &mut Session, table: &str, row: &str| {
                after.integer(&format!("SELECT count(*) FROM {table} WHERE {row}"))
            };
            let recorded = format!("name = '{name}'");
            assert_eq!(rows(&mut after, "leasehold.steps", &recorded), 1, "{name}");
            let before = format!("writer = 'before {name}'");
            assert_eq!(rows(&mut after, "business", &before), 1, "what came before it");
            after.run("DELETE FROM leasehold.jobs");
            rows(&mut after, "business", &format!("writer = '{name}'")) == 0
        });
        assert!(forgot, "the crash forgets what came after it");
    }

    fn step(name: &str) -> NewStep {
        NewStep {
            name: name.to_owned(),
            position: 0,
            result: "1".to_owned(),
        }
    }

    #[test]
    fn s0_04_neither_our_claim_nor_the_record_of_a_step_lowers_a_stronger_setting() {
        let cluster = forgetful();
        let mut worker = session(&cluster);
        for (before, within) in [
            ("off", "on"),
            ("local", "local"),
            ("on", "on"),
            ("remote_apply", "remote_apply"),
        ] {
            worker.run(&format!("SET synchronous_commit = {before}"));
            enqueue(&mut worker.conn, 1);
            worker.conn.begin_write().unwrap();
            let fence = claim(&mut worker.conn);
            assert_eq!(
                worker.text("SHOW synchronous_commit").as_deref(),
                Some(within),
                "{before}"
            );
            worker.run(&format!("SET LOCAL synchronous_commit = {before}"));
            let recorded = worker.conn.record_step(&Schema::default(), &fence, &step("charge"));
            assert_eq!(recorded.unwrap(), 1);
            assert_eq!(
                worker.text("SHOW synchronous_commit").as_deref(),
                Some(within),
                "{before}"
            );
            roll_back(&mut worker.conn);
            assert_eq!(worker.text("SHOW synchronous_commit").as_deref(), Some(before));
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::fs;

    use diesel::connection::SimpleConnection;
    use leasehold_tests::{TestDb, sqlite::database};

    use super::*;
    use crate::jobs::{control, migrated, standing};

    /// Puts the older file `copy` in the place of the database. Who has the database open keeps the file that was there.
    fn put_back(copy: &str, url: &str) {
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{url}{end}"));
        }
        let restored = format!("{copy}.restored");
        fs::copy(copy, &restored).unwrap();
        fs::rename(restored, url).unwrap();
    }

    #[test]
    fn s0_12_an_older_file_put_back_gives_the_generation_out_again_and_only_the_token_tells_the_workers_apart() {
        let mut db = database();
        let mut z = migrated(&mut db);
        enqueue(&mut z, 1);
        let copy = format!("{}.copy", db.url());
        z.batch_execute(&format!("VACUUM INTO '{copy}'")).unwrap();
        let told_z = claim(&mut z);
        drop(z);
        put_back(&copy, &db.url());

        let mut b = control(&db);
        let told_b = claim(&mut b);
        assert_eq!(
            (told_b.id, told_b.generation),
            (told_z.id, told_z.generation),
            "told twice"
        );
        let alone = format!(
            "WHERE id = {} AND generation = {} AND state = 'running'",
            told_z.id, told_z.generation
        );
        for naive in [
            format!("UPDATE leasehold_jobs SET lease_until = 1 {alone}"),
            format!("DELETE FROM leasehold_jobs {alone}"),
        ] {
            b.begin_write().unwrap();
            assert_eq!(
                diesel::RunQueryDsl::execute(diesel::sql_query(&naive), &mut b),
                Ok(1),
                "{naive}"
            );
            crate::jobs::roll_back(&mut b);
        }
        assert_eq!(b.heartbeat(&Schema::default(), &[told_z]).unwrap(), []);
        assert_eq!(complete(&mut b, &told_z, false), Completion::Refused);
        assert_eq!(complete(&mut b, &told_b, false), Completion::Completed);
    }

    #[test]
    fn s0_17_a_worker_under_which_an_older_file_was_put_back_is_told_so() {
        let mut db = database();
        let mut conn = migrated(&mut db);
        let id = enqueue(&mut conn, 1)[0];
        let (url, copy) = (db.url(), format!("{}.copy", db.url()));
        conn.batch_execute(&format!("VACUUM INTO '{copy}'")).unwrap();
        drop(conn);
        // The worker's handlers open their connection when they first need one: after the older file came back.
        let ended = commit_in_worker::<diesel::SqliteConnection>(url.clone(), How::default(), move |_, _| {
            put_back(&copy, &url);
            let mut b: diesel::SqliteConnection = Connect::connect(&url, &ConnectionSettings::default()).unwrap();
            assert_eq!(claim(&mut b).generation, 1);
            // Into the file itself, out of the way of those who still have the old one open.
            b.batch_execute("PRAGMA journal_mode = DELETE").unwrap();
        });
        assert_eq!(ended, Err(Refusal::DurabilityLoss { generation: 1 }));
        assert_eq!(standing(&mut db, id), "running/1");
    }
}
