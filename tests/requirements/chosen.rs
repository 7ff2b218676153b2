//! The fact group of the article pipeline: people and schedulers ask for articles on chosen issues, and each issue gets one.
//!
//! An issue is a job here, and its article a row of `effects`.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leasehold::__private::{Chosen, RunsKind, SelectedAs, SelectedRequest, claim_selected};
use leasehold::selected::{Answer, Selected, Settled};
use leasehold::{Backend, EnqueueOptions, Enqueued, Job, JobError, Running, Schema, Worker, manage};
use leasehold_tests::jobs::{Effects, Note, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};
use uuid::Uuid;

use crate::jobs::SOON;

pub(crate) fn issues<C: Backend>(conn: &mut C, count: i64) -> Vec<i64> {
    let issues: Vec<Note> = (1..=count).map(|n| Note { n }).collect();
    let enqueued = Note::enqueue_all(&issues, conn, &EnqueueOptions::new()).unwrap();
    enqueued.iter().map(Enqueued::id).collect()
}

/// A process that claims what it is asked for, and sweeps.
pub(crate) fn program<D: TestDb>(db: &D) -> Running<D::Connection, ()>
where
    D::Connection: Effects,
{
    let worker = Worker::<D::Connection, ()>::new(db.url(), ()).claims_selected_only();
    let worker = worker.register::<Note>().sweep_interval(Duration::from_millis(50));
    worker.start().unwrap()
}

/// Writes the article of each issue that was claimed; their ids.
#[track_caller]
pub(crate) fn write<C: Effects>(answers: Vec<Selected<C>>) -> Vec<i64> {
    let mut written = Vec::new();
    for selected in answers {
        if let Answer::Claimed(issue) = selected.answer {
            written.push(issue.id());
            let settled = issue.work(|note: Note, lease| {
                lease.commit(|tx| {
                    tx.note(note.n)?;
                    Ok(())
                })
            });
            assert_eq!(settled, Settled::Completed);
        }
    }
    written
}

/// What an HTTP handler says: 202 if there is something to do, 409 if nothing will come of it, and 503 if another try in a
/// moment may find more.
pub(crate) fn status<C: Backend>(answers: &[Selected<C>]) -> u16 {
    let is_claimed = |selected: &Selected<C>| selected.answer.is_claimed();
    let is_busy = |selected: &Selected<C>| matches!(selected.answer, Answer::Busy);
    match answers {
        _ if answers.iter().any(is_claimed) => 202,
        _ if answers.iter().any(is_busy) => 503,
        _ => 409,
    }
}

fn claimed<C: Backend>(answers: &[Selected<C>]) -> Vec<i64> {
    let claimed = answers.iter().filter(|selected| selected.answer.is_claimed());
    claimed.filter_map(|selected| selected.id).collect()
}

conformance! {
    fn s4_01_reading_the_state_first_and_writing_later_doubles_the_work(db: &mut Db) {
        let mut conn = prepare(db);
        db.sql("CREATE TABLE issue (id integer, status text); INSERT INTO issue VALUES (1, 'PENDING');
                CREATE TABLE article (issue integer)");
        let seen = [0; 2].map(|_| db.text("SELECT status FROM issue").unwrap());
        for status in seen {
            if status == "PENDING" {
                db.sql("UPDATE issue SET status = 'COMPLETED'; INSERT INTO article VALUES (1)");
            }
        }
        assert_eq!(db.integer("SELECT count(*) FROM article"), 2);

        let ids = issues(&mut conn, 1);
        let programs = [program(db), program(db)];
        // Both have seen that it is ready; the claim decides.
        let seen = [0; 2].map(|_| job(&mut conn, ids[0]).state.to_string());
        assert_eq!(seen, ["ready"; 2]);
        for program in &programs {
            write(program.claim_selected(&ids).unwrap());
        }
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
}

conformance! {
    fn s4_02_one_issue_one_article_however_many_requests(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 10);
        // The threads of one program claim in turn; those of two do so at the same time.
        let (programs, start) = ([program(db), program(db)], Barrier::new(8));
        let (start, ids_of_all) = (&start, &ids);
        let mut claimed: Vec<i64> = thread::scope(|scope| {
            let requests: Vec<_> = (0..8).map(|thread| {
                let program = &programs[thread % 2];
                scope.spawn(move || {
                    start.wait();
                    write(program.claim_selected(ids_of_all).unwrap())
                })
            }).collect();
            requests.into_iter().flat_map(|request| request.join().unwrap()).collect()
        });
        claimed.sort_unstable();
        assert_eq!(claimed, ids);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 10);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 10);
    }
}

conformance! {
    fn s4_06_nothing_claimed_is_409_and_a_mix_is_202_with_the_claimed_part(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 3);
        let program = program(db);
        write(program.claim_selected([ids[0]]).unwrap());
        let running = program.claim_selected([ids[1]]).unwrap();
        let mixed = program.claim_selected(&ids).unwrap();
        assert_eq!((status(&mixed), claimed(&mixed)), (202, vec![ids[2]]));
        let none = program.claim_selected(&ids).unwrap();
        assert_eq!((status(&none), claimed(&none)), (409, vec![]));
        assert!(matches!(none[0].answer, Answer::Finished { .. }));
        assert!(matches!(none[1].answer, Answer::Running { .. }));
        assert_eq!(status(&program.claim_selected([]).unwrap()), 409);
        drop(running);
    }
}

conformance! {
    fn s4_07_the_work_behind_a_request_gets_the_claimed_ids_only(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 4);
        let program = program(db);
        assert_eq!(write(program.claim_selected(&ids[..2]).unwrap()), ids[..2]);
        // As a background task of the request.
        let answers = program.claim_selected(&ids).unwrap();
        let claimed = claimed(&answers);
        let written = thread::spawn(move || write(answers)).join().unwrap();
        assert_eq!((&written, &written[..]), (&claimed, &ids[2..]));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 4);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 4);
    }
}

conformance! {
    fn s4_09_a_crash_after_the_claim_costs_a_lease_and_not_the_issue(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 1);
        // A process that dies before it begins: nobody renews what it has claimed.
        let runs = [RunsKind { kind: "note".to_owned(), version: 1 }];
        let request = SelectedRequest {
            chosen: Chosen::Ids(&ids), runs: &runs, lease_token: Uuid::new_v4(), worker: Uuid::new_v4(), counted: &[],
        };
        let rows = claim_selected(&mut conn, &Schema::default(), &request).unwrap();
        assert!(matches!(&rows[0].found, SelectedAs::Claimed(row) if row.generation == 1));
        let program = program(db);
        for _ in 0..2 {
            let again = program.claim_selected(&ids).unwrap();
            assert!(status(&again) == 409 && matches!(again[0].answer, Answer::Running { generation: 1, .. }));
        }
        db.set_time("leasehold.jobs", "lease_until", -1000, "state = 'running'");
        let mut written = Vec::new();
        eventually(SOON, "it is swept and can be claimed", || {
            written = write(program.claim_selected(&ids).unwrap());
            written == ids
        });
        let ended = job(&mut conn, ids[0]);
        assert_eq!((ended.state.as_str(), ended.attempt, ended.generation), ("completed", 2, 3));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
}

conformance! {
    fn s4_13_a_scheduler_and_a_person_take_the_same_path(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 10);
        let (scheduler, person) = (program(db), program(db));
        let start = Barrier::new(2);
        let reversed: Vec<i64> = ids.iter().rev().copied().collect();
        let (mut theirs, by_hand) = thread::scope(|scope| {
            let theirs = scope.spawn(|| {
                start.wait();
                write(scheduler.claim_selected(&ids).unwrap())
            });
            start.wait();
            let by_hand = write(person.claim_selected(&reversed).unwrap());
            (theirs.join().unwrap(), by_hand)
        });
        theirs.extend(by_hand);
        theirs.sort_unstable();
        assert_eq!(theirs, ids);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 10);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 10);
    }
}

conformance! {
    fn s4_14_a_failed_issue_can_be_claimed_again(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = issues(&mut conn, 2);
        let program = program(db);
        let fail = |id, error: fn() -> JobError| {
            let issue = program.claim_now(id).unwrap().claimed().unwrap();
            issue.work(|_: Note, _| Err(error()))
        };
        // One that is retried comes due after its backoff.
        let later = || JobError::retry_after("no answer", Duration::from_secs(600));
        assert!(matches!(fail(ids[0], later), Settled::Retried { .. }));
        assert!(matches!(program.claim_now(ids[0]).unwrap(), Answer::NotDue { .. }));
        db.set_time("leasehold.jobs", "run_at", -1000, &format!("id = {}", ids[0]));
        // One that is discarded does not come again by itself.
        assert!(matches!(fail(ids[1], || JobError::discard("no such issue")), Settled::Discarded { .. }));
        assert!(matches!(program.claim_now(ids[1]).unwrap(), Answer::Finished { .. }));
        assert!(manage::requeue(&mut conn, &Schema::default(), ids[1], "ops").is_ok());
        let again = program.claim_selected(&ids).unwrap();
        assert_eq!(claimed(&again), ids);
        assert_eq!(write(again), ids);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 2);
    }
}

conformance! {
    fn s4_11_lists_in_opposite_order_are_claimed_without_a_deadlock(db: &mut Db) {
        let mut conn = prepare(db);
        let programs = [program(db), program(db), program(db), program(db)];
        for _ in 0..3 {
            let ids = issues(&mut conn, 300);
            let reversed: Vec<i64> = ids.iter().rev().copied().collect();
            let start = Barrier::new(4);
            let mut claimed: Vec<i64> = thread::scope(|scope| {
                let (ids, reversed, start) = (&ids, &reversed, &start);
                let requests: Vec<_> = programs.iter().enumerate().map(|(place, program)| scope.spawn(move || {
                    let mut left = if place % 2 == 0 { ids.clone() } else { reversed.clone() };
                    let mut mine = Vec::new();
                    start.wait();
                    while !left.is_empty() {
                        let answers = program.claim_selected(&left).unwrap();
                        left = answers.iter().filter(|one| matches!(one.answer, Answer::Busy)).filter_map(|one| one.id).collect();
                        mine.extend(answers.into_iter().filter_map(|one| one.answer.claimed()));
                    }
                    mine
                })).collect();
                // All are held until the last one has asked: a dropped one may be claimed again.
                let claimed: Vec<_> = requests.into_iter().flat_map(|request| request.join().unwrap()).collect();
                claimed.iter().map(|issue| issue.id()).collect()
            });
            claimed.sort_unstable();
            assert_eq!(claimed, ids);
        }
    }
}
