//! Every write of a worker presents its fence.

use leasehold::__private::Fence;
use leasehold::__private::*;
use leasehold::{Backend, Refusal, Schema};
use leasehold_tests::{TestDb, conformance};
use uuid::Uuid;

use crate::jobs::{
    begin_commit, claim, claim_statement, clock_ms, complete, control, enqueue, lease_until_ms, migrated, roll_back,
    standing, take_over,
};
use crate::story::{How, commit_in_worker};

/// A write of the library: whether it changed the row under this fence.
pub(crate) struct Write<C> {
    pub(crate) name: &'static str,
    /// Whether the row is still `running` under this fence after it.
    keeps: bool,
    pub(crate) run: fn(&mut C, &Fence) -> bool,
}

fn put_back(uses_attempt: bool, error: Option<AttemptError>) -> PutBack {
    PutBack {
        delay_ms: 0,
        uses_attempt,
        takes_away: false,
        error,
    }
}

/// All of them, each as its caller uses it.
pub(crate) fn writes<C: Backend>() -> Vec<Write<C>> {
    let write = |name, keeps, run| Write { name, keeps, run };
    vec![
        write("begin", true, |c, f| {
            !c.begin(&Schema::default(), &[*f]).unwrap().is_empty()
        }),
        write("heartbeat", true, |c, f| {
            let beats = c.heartbeat(&Schema::default(), &[*f]).unwrap();
            beats.iter().any(|beat| beat.renewed)
        }),
        write("complete", false, |c, f| complete(c, f, false) == Completion::Completed),
        write("complete strictly", false, |c, f| {
            complete(c, f, true) == Completion::Completed
        }),
        write("finish", false, |c, f| {
            !c.finish(&Schema::default(), &[*f]).unwrap().is_empty()
        }),
        write("release", false, |c, f| {
            !c.release(&Schema::default(), &[*f]).unwrap().is_empty()
        }),
        write("put back", false, |c, f| {
            let error = AttemptError {
                cause: "error",
                error: "why".to_owned(),
            };
            c.put_back(&Schema::default(), f, &put_back(true, Some(error))).unwrap() == 1
        }),
        write("end", false, |c, f| {
            let error = AttemptError {
                cause: "error",
                error: "why".to_owned(),
            };
            let how = End {
                state: "discarded",
                reason: None,
                takes_away: false,
                error: Some(error),
            };
            c.end(&Schema::default(), f, &how).unwrap() == 1
        }),
    ]
}

/// All that a write could change.
fn picture<Db: TestDb>(db: &mut Db, id: i64) -> Vec<String> {
    let queries = [
        "SELECT state || generation || lease_token || attempt || lease_until || worker || begun FROM leasehold.jobs WHERE id = ",
        "SELECT state || generation FROM leasehold.finished_jobs WHERE id = ",
        "SELECT cause FROM leasehold.job_errors WHERE job_id = ",
    ];
    let rows = queries.iter().flat_map(|query| db.texts(&format!("{query}{id}")));
    rows.flatten().collect()
}

conformance! {
    fn s0_12_stale_completion_is_refused(db: &mut Db) {
        let mut z = migrated(db);
        enqueue(&mut z, 1);
        let stale = claim(&mut z);
        let owner = take_over(&mut control(db), stale.id);
        assert!(owner.generation > stale.generation);
        assert_eq!(complete(&mut z, &stale, false), Completion::Refused);
        assert_eq!(standing(db, owner.id), format!("running/{}", owner.generation));
        assert_eq!(complete(&mut control(db), &owner, false), Completion::Completed);
        assert_eq!(standing(db, owner.id), format!("completed/{}", owner.generation));
    }
}

conformance! {
    fn s0_12_every_write_of_a_stale_worker_is_refused_and_the_owners_is_not(db: &mut Db) {
        let mut z = migrated(db);
        for write in writes() {
            let name = write.name;
            enqueue(&mut z, 1);
            let stale = claim(&mut z);
            let owner = take_over(&mut control(db), stale.id);
            let before = picture(db, owner.id);
            assert!(!(write.run)(&mut z, &stale), "{name}");
            assert_eq!(picture(db, owner.id), before, "{name}");
            assert!((write.run)(&mut control(db), &owner), "{name}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
}

conformance! {
    fn s0_12_generation_token_and_state_are_each_needed(db: &mut Db) {
        let mut conn = migrated(db);
        for write in writes() {
            let name = write.name;
            enqueue(&mut conn, 1);
            let fence = claim(&mut conn);
            let before = picture(db, fence.id);
            for almost in [
                Fence { generation: fence.generation + 1, ..fence },
                Fence { generation: fence.generation - 1, ..fence },
                Fence { lease_token: Uuid::new_v4(), ..fence },
                Fence { id: fence.id + 1, ..fence },
            ] {
                assert!(!(write.run)(&mut conn, &almost), "{name}: {almost:?} for {fence:?}");
                assert_eq!(picture(db, fence.id), before, "{name}");
            }
            // Back in the queue the row has the same generation and token until somebody claims it.
            conn.put_back(&Schema::default(), &fence, &put_back(true, None)).unwrap();
            assert_eq!(standing(db, fence.id), "ready/1");
            assert!(!(write.run)(&mut conn, &fence), "{name}: the row is ready");
            assert_eq!(standing(db, fence.id), "ready/1", "{name}");

            let owner = claim(&mut conn);
            assert!((write.run)(&mut conn, &owner), "{name}");
            assert_eq!(standing(db, owner.id) == "running/2", write.keeps, "{name}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
}

conformance! {
    fn s0_12_one_stale_lease_does_not_fail_its_neighbours(db: &mut Db) {
        let mut conn = migrated(db);
        let mut settled = Vec::new();
        for write in ["begin", "heartbeat", "finish", "release"] {
            enqueue(&mut conn, 3);
            let mut fences = claim_statement(&mut conn, 3).unwrap();
            fences.sort_unstable();
            fences[1].lease_token = Uuid::new_v4();
            let schema = Schema::default();
            let mut ours = match write {
                "begin" => conn.begin(&schema, &fences).unwrap(),
                "heartbeat" => conn.heartbeat(&schema, &fences).unwrap().iter().map(|beat| beat.id).collect(),
                "finish" => conn.finish(&schema, &fences).unwrap(),
                _ => conn.release(&schema, &fences).unwrap(),
            };
            ours.sort_unstable();
            settled.push((write, ours == [fences[0].id, fences[2].id]));
            db.sql("DELETE FROM leasehold.jobs");
        }
        assert_eq!(settled, [("begin", true), ("heartbeat", true), ("finish", true), ("release", true)]);
    }
}

conformance! {
    fn s0_13_stale_heartbeat_is_refused(db: &mut Db) {
        let mut z = migrated(db);
        enqueue(&mut z, 1);
        let stale = claim(&mut z);
        let owner = take_over(&mut control(db), stale.id);
        db.set_time("leasehold.jobs", "lease_until", 5_000, "true");
        let until = lease_until_ms(db, owner.id);
        assert_eq!(z.heartbeat(&Schema::default(), &[stale]).unwrap(), []);
        assert_eq!(lease_until_ms(db, owner.id), until, "the owner's lease is as it was");

        let before = clock_ms(db);
        let beats = z.heartbeat(&Schema::default(), &[owner]).unwrap();
        assert!(beats.len() == 1 && beats[0].renewed);
        assert!(lease_until_ms(db, owner.id) >= before + 60_000);
    }
}

conformance! {
    fn s0_13_a_heartbeat_counts_from_now_alone(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, 1);
        let fence = claim(&mut conn);
        // An end far away, as a clock that went wrong leaves it, does not stay.
        db.set_time("leasehold.jobs", "lease_until", 86_400_000, "true");
        assert!(conn.heartbeat(&Schema::default(), &[fence]).unwrap()[0].renewed);
        let now = clock_ms(db);
        assert!(lease_until_ms(db, fence.id) <= now + 60_000);
        assert_eq!(standing(db, fence.id), "running/1", "a heartbeat leaves the generation");
    }
}

/// What a queue without a fence does in place of our commit: it finds the row by its id and sees that it is running.
fn naive_commit<C: Backend>(conn: &mut C, id: i64) {
    let columns = "id, queue, kind, version, payload, priority, run_at, attempt, max_attempts, lease_token, lease_ms, \
                   idempotency_key, unique_key, created_at, generation";
    let (prefix, column, value) = match C::NAME {
        "sqlite" => ("leasehold_", ", finished_at", ", 0"),
        _ => ("leasehold.", "", ""),
    };
    let statements = [
        "INSERT INTO business VALUES ('stale worker')".to_owned(),
        format!(
            "INSERT INTO {prefix}finished_jobs ({columns}, state{column})
             SELECT {columns}, 'completed'{value} FROM {prefix}jobs WHERE id = {id} AND state = 'running'"
        ),
        format!("DELETE FROM {prefix}jobs WHERE id = {id} AND state = 'running'"),
    ];
    conn.transaction(|tx| statements.iter().try_for_each(|statement| tx.batch_execute(statement)))
        .unwrap();
}

conformance! {
    fn s0_14_a_commit_by_id_alone_lets_the_stale_worker_through_and_ours_does_not(db: &mut Db) {
        let mut z = migrated(db);
        enqueue(&mut z, 1);
        let stale = claim(&mut z);
        let owner = take_over(&mut control(db), stale.id);
        naive_commit(&mut z, stale.id);
        // The owner's generation on the stale worker's rows, and the owner is the one who is refused.
        assert_eq!(standing(db, owner.id), format!("completed/{}", owner.generation));
        assert_eq!(db.texts("SELECT writer FROM business"), [Some("stale worker".to_owned())]);
        assert_eq!(complete(&mut control(db), &owner, false), Completion::Refused);

        db.sql("DELETE FROM business");
        let id = enqueue(&mut z, 1)[0];
        let ended = commit_in_worker::<Connection>(db.url(), How::default(), |b, id| {
            take_over(b, id);
        });
        assert!(matches!(ended, Err(Refusal::Lost { .. })), "{ended:?}");
        assert_eq!(db.integer("SELECT count(*) FROM business"), 0);
        assert_eq!(standing(db, id), "running/3");
    }
}

conformance! {
    fn s0_16_a_write_that_changes_no_row_is_no_error(db: &mut Db) {
        let mut conn = migrated(db);
        let id = enqueue(&mut conn, 1)[0];
        let nobody = Fence { id, generation: 7, lease_token: Uuid::new_v4() };
        let name = if Db::BACKEND == "sqlite" { "leasehold_jobs" } else { "leasehold.jobs" };
        let update = format!("UPDATE {name} SET priority = 1 WHERE id = {id} AND generation = 7");
        assert_eq!(diesel::RunQueryDsl::execute(diesel::sql_query(update), &mut conn), Ok(0));
        begin_commit(&mut conn, None);
        assert_eq!(conn.complete(&Schema::default(), &nobody, false), Ok(Completion::Refused));
        roll_back(&mut conn);
        assert_eq!(conn.put_back(&Schema::default(), &nobody, &put_back(true, None)), Ok(0));
        assert_eq!(standing(db, id), "ready/0");
    }
}
