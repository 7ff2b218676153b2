//! Claims of chosen jobs whose requests and answers are lost on the way, through a proxy.

use std::time::Duration;

use diesel::PgConnection;
use leasehold::selected::{Answer, ClaimError, Settled};
use leasehold::{EnqueueOptions, Enqueued, Handler, Job, LeaseGuard, Outcome, Running, Worker};
use leasehold_tests::jobs::{HOUR, Note, SOON, job, prepare};
use leasehold_tests::proxy::{Fault, Proxy};
use leasehold_tests::{TestDb, eventually, postgres};
use serde::{Deserialize, Serialize};

/// Of the statement that claims chosen jobs alone.
const CLAIM_SELECTED: &str = "WITH ORDINALITY AS given";
const FIND_CLAIMED: &str = "state = 'running' AND lease_token = ";
const FINISH: &str = "SELECT id FROM moved";

fn start(proxy: &Proxy) -> Running<PgConnection, ()> {
    let worker = Worker::<PgConnection, ()>::new(proxy.url(), ()).claims_selected_only();
    let worker = worker.sweep_interval(Duration::from_millis(50)).register::<Note>();
    worker.start().unwrap()
}

/// Jobs whose leases do not end before the test does.
fn notes(conn: &mut PgConnection, count: i64) -> Vec<i64> {
    let notes: Vec<Note> = (1..=count).map(|n| Note { n }).collect();
    let enqueued = Note::enqueue_all(&notes, conn, &EnqueueOptions::new().lease(HOUR)).unwrap();
    enqueued.iter().map(Enqueued::id).collect()
}

#[test]
fn a_claim_of_chosen_jobs_whose_answer_was_lost_is_found_and_answered() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let ids = notes(&mut conn, 3);
    let proxy = Proxy::start(&db.url());
    let running = start(&proxy);
    proxy.once(CLAIM_SELECTED, Fault::LoseAnswer);
    let answers = running.claim_selected([ids[0], 999_999, ids[1], ids[2]]).unwrap();
    proxy.strikes();
    assert_eq!(running.leases_held(), 3);
    assert!(matches!(answers[1].answer, Answer::Missing));
    for selected in answers {
        if let Answer::Claimed(note) = selected.answer {
            assert_eq!((note.attempt(), note.generation()), (1, 1));
            assert_eq!(note.work(|_: Note, lease| lease.finish()), Settled::Completed);
        }
    }
    assert_eq!(running.counts().completed, 3);
}

#[test]
fn a_claim_of_chosen_jobs_that_never_arrived_is_made_again() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = notes(&mut conn, 1)[0];
    let proxy = Proxy::start(&db.url());
    let running = start(&proxy);
    proxy.once(CLAIM_SELECTED, Fault::LoseRequest);
    let answer = running.claim_now(id).unwrap();
    proxy.strikes();
    assert_eq!(answer.claimed().unwrap().generation(), 1);
}

#[test]
fn what_was_claimed_for_a_caller_who_was_told_otherwise_is_given_back_long_before_its_lease_ends() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let ids = notes(&mut conn, 2);
    let proxy = Proxy::start(&db.url());
    let running = start(&proxy);
    proxy.once(CLAIM_SELECTED, Fault::LoseAnswer);
    proxy.always(FIND_CLAIMED, Fault::LoseRequest);
    let error = running.claim_selected(&ids).unwrap_err();
    assert!(matches!(error, ClaimError::Away), "{error}");
    assert_eq!(job(&mut conn, ids[0]).state.as_str(), "running");
    assert_eq!(running.leases_held(), 0);
    proxy.heal();
    eventually(SOON, "they are given back", || {
        ids.iter().all(|id| {
            let job = job(&mut conn, *id);
            (job.state.as_str(), job.attempt, job.generation) == ("ready", 0, 1)
        })
    });
    assert!(running.claim_now(ids[0]).unwrap().is_claimed());
}

/// One at a time.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "limited-note", lease = "1h", concurrency(max = 1))]
struct Limited;

impl Handler<PgConnection> for Limited {
    fn run<'j>(self, lease: LeaseGuard<'j, PgConnection>, _: &()) -> Outcome<'j> {
        lease.finish()
    }
}

fn start_limited(proxy: &Proxy) -> Running<PgConnection, ()> {
    let worker = Worker::<PgConnection, ()>::new(proxy.url(), ()).claims_selected_only();
    worker.poll_interval(HOUR).register::<Limited>().start().unwrap()
}

#[test]
fn a_second_claim_after_a_limit_let_a_job_in_is_found_too_when_its_answer_was_lost() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = Limited.enqueue(&mut conn).unwrap().id();
    let proxy = Proxy::start(&db.url());
    let running = start_limited(&proxy);
    // The first one finds the job blocked.
    proxy.once(CLAIM_SELECTED, Fault::Stall(Duration::from_millis(1)));
    proxy.once(CLAIM_SELECTED, Fault::LoseAnswer);
    let answer = running.claim_now(id).unwrap();
    proxy.strikes();
    proxy.strikes();
    let limited = answer.claimed().expect("the caller has it");
    assert_eq!(limited.work(|_: Limited, lease| lease.finish()), Settled::Completed);
}

#[test]
fn a_job_whose_place_is_not_decided_yet_is_busy_and_not_blocked() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = Limited.enqueue(&mut conn).unwrap().id();
    let proxy = Proxy::start(&db.url());
    let running = start_limited(&proxy);
    // Another process lets jobs in, or has the row.
    for lock in [
        "SELECT pg_advisory_xact_lock(1097100649, hashtext('leasehold'))::text",
        "SELECT id FROM leasehold.jobs FOR UPDATE",
    ] {
        db.sql(&format!("BEGIN; {lock}"));
        let answer = running.claim_now(id).unwrap();
        assert!(matches!(answer, Answer::Busy), "{answer} while {lock}");
        db.sql("ROLLBACK");
    }
    assert!(running.claim_now(id).unwrap().is_claimed());
}

#[test]
fn a_finish_of_a_caller_whose_answer_was_lost_is_known_to_have_landed() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let id = notes(&mut conn, 1)[0];
    let proxy = Proxy::start(&db.url());
    let running = start(&proxy);
    let note = running.claim_now(id).unwrap().claimed().unwrap();
    proxy.once(FINISH, Fault::LoseAnswer);
    assert_eq!(note.work(|_: Note, lease| lease.finish()), Settled::Completed);
    proxy.strikes();
    assert_eq!(job(&mut conn, id).state.as_str(), "completed");
    assert_eq!((running.counts().completed, running.counts().lost), (1, 0));
}
