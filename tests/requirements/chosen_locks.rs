//! Chosen issues whose rows others have locked: what a claim that waits does, and ours, which does not.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::{PgConnection, RunQueryDsl};
use leasehold::selected::Answer;
use leasehold::{JobError, Worker};
use leasehold_tests::jobs::{Note, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

use crate::chosen::{issues, program, status, write};
use crate::jobs::SOON;
use crate::session::Session;

/// The claim as the article pipeline had it, which waits for the rows that others have locked.
fn waiting_claim(ids: &[i64], lock: &str) -> String {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    format!(
        "SELECT id FROM leasehold.jobs WHERE id IN ({}) AND state = 'ready' ORDER BY id {lock}",
        ids.join(", ")
    )
}

fn lock(session: &mut Session, id: i64) {
    session.run(&format!("BEGIN; SELECT FROM leasehold.jobs WHERE id = {id} FOR UPDATE"));
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_03_a_claim_that_waits_waits_as_long_as_the_other_one_and_gets_nothing(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 2);
        let program = program(db);
        let (mut a, b) = (Session::of(db), Session::of(db));
        a.run("BEGIN; UPDATE leasehold.jobs SET state = 'running', worker = gen_random_uuid(),
               lease_token = gen_random_uuid(), lease_until = clock_timestamp() + interval '1 minute'");
        let text = waiting_claim(&ids, "FOR UPDATE");
        let waiting = b.waits(db, move |b| b.integers(&text));
        // Ours has its answer while the other one still waits.
        let answers = program.claim_selected(&ids).unwrap();
        assert!(answers.iter().all(|selected| matches!(selected.answer, Answer::Busy)), "{answers:?}");
        assert_eq!(waiting.event(db), "transactionid");
        a.run("COMMIT");
        let (_, got) = waiting.answer();
        assert!(got.is_empty(), "{got:?}");
        let answers = program.claim_selected(&ids).unwrap();
        assert!(answers.iter().all(|selected| matches!(selected.answer, Answer::Running { .. })), "{answers:?}");
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_04_what_is_locked_is_answered_at_once(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 2);
        let program = program(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        lock(&mut a, ids[0]);
        // Whatever waited would wait for ever: the lock goes only after the answers.
        assert!(b.integers(&waiting_claim(&ids[..1], "FOR UPDATE SKIP LOCKED")).is_empty());
        assert!(matches!(program.claim_now(ids[0]).unwrap(), Answer::Busy));
        assert_eq!(write(program.claim_selected(&ids).unwrap()), [ids[1]]);
        a.run("ROLLBACK");
        assert_eq!(write(program.claim_selected(&ids).unwrap()), [ids[0]]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_05_what_can_run_is_claimed_and_the_rest_is_left_as_it_is(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 5);
        let program = program(db);
        let running = program.claim_now(ids[0]).unwrap();
        write(program.claim_selected([ids[1]]).unwrap());
        let failed = program.claim_now(ids[3]).unwrap().claimed().unwrap();
        let _ = failed.work(|_: Note, _| Err(JobError::retry_after("fails", Duration::ZERO)));
        let mut a = Session::of(db);
        lock(&mut a, ids[4]);
        let answers = program.claim_selected([ids[0], ids[1], ids[2], ids[3], ids[4], 999, ids[2]]).unwrap();
        let texts: Vec<String> = answers.iter().map(|selected| selected.answer.to_string()).collect();
        assert_eq!(texts, ["running", "completed", "claimed", "claimed", "busy", "missing"]);
        let untouched = format!("SELECT count(*) FROM leasehold.jobs WHERE id = {} AND generation = 0 AND attempt = 0", ids[4]);
        assert_eq!(db.integer(&untouched), 1);
        assert_eq!(write(answers), ids[2..4]);
        drop(running);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_08_a_row_that_was_only_locked_is_told_apart_from_one_that_is_taken(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 1);
        let program = program(db);
        let mut a = Session::of(db);
        lock(&mut a, ids[0]);
        assert_eq!(status(&program.claim_selected(&ids).unwrap()), 503, "another try may find it free");
        a.run("ROLLBACK");
        let claimed = program.claim_selected(&ids).unwrap();
        assert_eq!(status(&claimed), 202);
        assert_eq!(status(&program.claim_selected(&ids).unwrap()), 409);
        assert_eq!(write(claimed), ids);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_10_a_locked_row_does_not_use_up_the_pool(db: &mut Db) {
        let mut conn = prepare(db);
        let id = issues(&mut conn, 1)[0];
        let timeout = Duration::from_secs(1);
        let pool: Pool<ConnectionManager<PgConnection>> =
            Pool::builder().max_size(4).connection_timeout(timeout).build(ConnectionManager::new(db.url())).unwrap();
        let worker = Worker::<Connection, ()>::new(db.url(), ()).with_pool(pool.clone()).claims_selected_only();
        let program = worker.register::<Note>().start().unwrap();
        let mut a = Session::of(db);
        lock(&mut a, id);
        let start = Barrier::new(6);
        thread::scope(|scope| {
            let requests: Vec<_> = (0..6).map(|_| scope.spawn(|| {
                let text = waiting_claim(&[id], "FOR UPDATE");
                pool.get().map(|mut conn| diesel::sql_query(text).execute(&mut conn).unwrap())
            })).collect();
            let stuck = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            eventually(SOON, "the pool is used up", || db.integer(stuck) == 4);
            eventually(SOON, "the others give up", || requests.iter().filter(|request| request.is_finished()).count() == 2);

            // With the pool still used up by those.
            let answers: Vec<_> = (0..6).map(|_| scope.spawn(|| {
                start.wait();
                program.claim_now(id).unwrap().to_string()
            })).collect();
            for answer in answers {
                assert_eq!(answer.join().unwrap(), "busy");
            }
            assert_eq!(db.integer(stuck), 4);
            a.run("ROLLBACK");
            let got: Vec<_> = requests.into_iter().map(|request| request.join().unwrap()).collect();
            assert_eq!(got.iter().filter(|got| got.is_err()).count(), 2);
        });
        assert!(program.claim_now(id).unwrap().is_claimed());
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_11_lists_in_opposite_order_deadlock_if_they_wait(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 2);
        let program = program(db);
        let (mut a, mut b) = (Session::of(db), Session::of(db));
        for (session, id) in [(&mut a, ids[0]), (&mut b, ids[1])] {
            session.conn.batch_execute("SET deadlock_timeout = '100ms'").unwrap();
            lock(session, id);
        }
        let second = format!("SELECT FROM leasehold.jobs WHERE id = {} FOR UPDATE", ids[1]);
        // Whoever is the victim gives up what it has, or the other one would wait for ever.
        let waiting = a.waits(db, move |a| {
            let ended = a.sqlstate(&second);
            a.run("ROLLBACK");
            ended
        });
        let first = b.sqlstate(&format!("SELECT FROM leasehold.jobs WHERE id = {} FOR UPDATE", ids[0]));
        b.run("ROLLBACK");
        let (_, second) = waiting.answer();
        let mut ends = [first, second];
        ends.sort_unstable();
        assert_eq!(ends, ["00000", "40P01"]);
        assert_eq!(write(program.claim_selected(&ids).unwrap()), ids);
    }
}
