//! What callers may ask for, limits, many callers at once, and the end of a worker whose callers hold jobs.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use leasehold::selected::{Answer, Asked, BlockedBy, ClaimError, ClaimedJob, Selection, Settled};
use leasehold::{EnqueueOptions, Job, Refusal, Running, Worker};
use leasehold_tests::jobs::{App, Note, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};

use crate::selected::{OneByOne, commits, standing, start, steps, take};

conformance!(
    fn each_distinct_thing_is_answered_once_where_it_was_named_first(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 3, &EnqueueOptions::new());
        let running = start(db, app().0);
        assert!(running.claim_selected([]).unwrap().is_empty());
        assert!(
            running
                .claim_selected(Selection::idempotency_keys::<&str>([]))
                .unwrap()
                .is_empty()
        );
        let asked = [ids[2], -7, ids[0], ids[2], -7, ids[2]];
        let answers = running.claim_selected(asked).unwrap();
        let named: Vec<_> = answers.iter().map(|selected| selected.asked.clone()).collect();
        assert_eq!(named, [Asked::Id(ids[2]), Asked::Id(-7), Asked::Id(ids[0])]);
        assert_eq!(
            answers.iter().map(|selected| selected.id).collect::<Vec<_>>(),
            [Some(ids[2]), None, Some(ids[0])]
        );
        let is_claimed: Vec<_> = answers.iter().map(|selected| selected.answer.is_claimed()).collect();
        assert_eq!(is_claimed, [true, false, true]);
        assert_eq!(running.leases_held(), 2);
    }
);

conformance!(
    fn keys_and_payloads_name_jobs(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().idempotency_key("order 17");
        let by_key = Step::now(1, Then::Finish)
            .enqueue_with(&mut conn, &options)
            .unwrap()
            .id();
        let unique = OneByOne { n: 7 }.enqueue(&mut conn).unwrap().id();
        let running = start(db, app().0);
        let answers = running
            .claim_selected(Selection::idempotency_keys(["order 18", "order 17", "order 18"]))
            .unwrap();
        assert_eq!(
            answers.iter().map(|selected| selected.id).collect::<Vec<_>>(),
            [None, Some(by_key)]
        );
        assert_eq!(answers[1].asked, Asked::IdempotencyKey("order 17".to_owned()));
        assert!(matches!(answers[0].answer, Answer::Missing) && answers[1].answer.is_claimed());
        let payloads = [8, 7, 7].map(|n| OneByOne { n });
        let answers = running.claim_selected(Selection::jobs(&payloads)).unwrap();
        assert_eq!(
            answers.iter().map(|selected| selected.id).collect::<Vec<_>>(),
            [None, Some(unique)]
        );
        assert!(answers[1].answer.is_claimed());
        assert!(matches!(&answers[1].asked, Asked::UniqueKey { kind: "serial-step", key } if key.contains('7')));
        let refused = running
            .claim_selected(Selection::jobs(&[Step::waiting(1)]))
            .unwrap_err();
        assert!(matches!(refused, ClaimError::NoUniqueKey { kind: "step" }), "{refused}");
    }
);

conformance!(
    fn a_list_may_have_so_many_distinct_ids_and_no_more(db: &mut Db) {
        let mut conn = prepare(db);
        let id = steps(&mut conn, 1, &EnqueueOptions::new())[0];
        let running = start(db, app().0);
        let many: Vec<i64> = (id..).take(Selection::MOST).chain([id; 5]).collect();
        let too_many: Vec<i64> = (id..).take(Selection::MOST + 1).collect();
        let refused = running.claim_selected(&too_many).unwrap_err();
        assert!(matches!(refused, ClaimError::TooMany { asked: 1001 }), "{refused}");
        assert_eq!(running.leases_held(), 0);
        let answers = running.claim_selected(&many).unwrap();
        assert_eq!(answers.len(), Selection::MOST);
        assert!(answers[0].answer.is_claimed());
        assert!(
            answers[1..]
                .iter()
                .all(|selected| matches!(selected.answer, Answer::Missing))
        );
    }
);

conformance!(
    fn a_limit_lets_a_chosen_job_in_when_there_is_room_for_it(db: &mut Db) {
        let mut conn = prepare(db);
        let [first, second] = [1, 2].map(|n| OneByOne { n }.enqueue(&mut conn).unwrap().id());
        // Nobody else admits anything.
        let running = start(db, app().0);
        let one = take(&running, first);
        let blocked = running.claim_now(second).unwrap();
        assert!(matches!(blocked, Answer::Blocked { by: BlockedBy::Limit }), "{blocked}");
        assert_eq!(one.work(|_: OneByOne, lease| lease.finish()), Settled::Completed);
        let two = take(&running, second);
        assert_eq!(two.work(|_: OneByOne, lease| lease.finish()), Settled::Completed);
        // One that comes due waits for its limit from then on.
        let later = EnqueueOptions::new().delay(SOON);
        let third = OneByOne { n: 3 }.enqueue_with(&mut conn, &later).unwrap().id();
        assert!(matches!(running.claim_now(third).unwrap(), Answer::NotDue { .. }));
        db.set_time("leasehold.jobs", "run_at", -1000, &format!("id = {third}"));
        assert!(running.claim_now(third).unwrap().is_claimed());
    }
);

conformance!(
    fn each_job_is_run_once_whoever_else_claims_and_chooses(db: &mut Db) {
        let mut conn = prepare(db);
        let notes: Vec<Note> = (1..=100).map(|n| Note { n }).collect();
        let enqueued = Note::enqueue_all(&notes, &mut conn, &EnqueueOptions::new()).unwrap();
        let ids: Vec<i64> = enqueued.iter().map(leasehold::Enqueued::id).collect();
        let workers: Vec<Running<Connection, ()>> = (0..2)
            .map(|_| {
                Worker::<Connection, ()>::new(db.url(), ())
                    .claims_selected_only()
                    .register::<Note>()
                    .start()
                    .unwrap()
            })
            .collect();
        let start = Barrier::new(9);
        let chosen: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|place| {
                    let (running, start) = (&workers[place % 2], &start);
                    let mut list = ids.clone();
                    if place % 4 < 2 {
                        list.reverse();
                    }
                    scope.spawn(move || {
                        start.wait();
                        let mut mine = 0;
                        loop {
                            let answers = running.claim_selected(&list).unwrap();
                            let mut ended = 0;
                            for selected in answers {
                                match selected.answer {
                                    Answer::Claimed(job) => {
                                        let settled = job.work(|note: Note, lease| {
                                            lease.commit(|tx| {
                                                leasehold_tests::jobs::Effects::note(tx, note.n)?;
                                                Ok(())
                                            })
                                        });
                                        assert_eq!(settled, Settled::Completed);
                                        mine += 1;
                                    }
                                    Answer::Finished { .. } => ended += 1,
                                    Answer::Busy | Answer::Running { .. } => {}
                                    other => panic!("{other}"),
                                }
                            }
                            if ended == 100 {
                                return mine;
                            }
                        }
                    })
                })
                .collect();
            // And an ordinary worker that takes what it finds.
            start.wait();
            let other = Worker::<Connection, ()>::new(db.url(), ())
                .threads(2)
                .register::<Note>()
                .start()
                .unwrap();
            let chosen = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            eventually(SOON, "all are counted", || {
                let completed: u64 = workers
                    .iter()
                    .chain([&other])
                    .map(|worker| worker.counts().completed)
                    .sum();
                completed == 100
            });
            chosen
        });
        let by_callers: u64 = workers.iter().map(|worker| worker.counts().completed).sum();
        assert_eq!(u64::try_from(chosen).unwrap(), by_callers);
        assert!(workers.iter().all(|worker| worker.counts().lost == 0));
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 100);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), 100);
        assert_eq!(
            db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE generation = 1 AND attempt = 1"),
            100
        );
    }
);

conformance!(
    fn a_shutdown_gives_back_what_no_caller_has_begun(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 3, &EnqueueOptions::new());
        let running = start(db, app().0);
        let mut jobs: Vec<ClaimedJob<Connection>> = ids.iter().map(|id| take(&running, *id)).collect();
        let report = running.shutdown(SOON);
        assert_eq!((report.released, report.abandoned), (3, 0));
        for id in &ids {
            assert_eq!(standing(&mut conn, *id), ("ready".to_owned(), 0, 1));
        }
        // They outlive their worker, and nothing comes of them.
        assert_eq!(jobs[0].id(), ids[0]);
        jobs.remove(0).hand_over();
        drop(jobs.remove(0));
        assert_eq!(jobs.remove(0).work(|_: Step, _| unreachable!()), Settled::Released);
        for id in &ids {
            assert_eq!(standing(&mut conn, *id), ("ready".to_owned(), 0, 1));
        }
    }
);

conformance!(
    fn a_shutdown_waits_for_a_callers_run_within_its_patience(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = steps(&mut conn, 2, &EnqueueOptions::new());
        for (id, patience) in ids.into_iter().zip([SOON, Duration::from_millis(100)]) {
            let is_patient = patience == SOON;
            let running = start(db, app().0);
            eventually(SOON, "it shows itself", || {
                db.integer("SELECT count(*) FROM leasehold.workers") == 1
            });
            let worker = db.text("SELECT CAST(id AS text) FROM leasehold.workers").unwrap();
            let log = capture_log();
            let claimed = take(&running, id);
            let watch = claimed.watch();
            let ((began, begins), (go, word)) = (bounded::<()>(0), bounded::<()>(0));
            thread::scope(|scope| {
                let run = scope.spawn(|| {
                    claimed.work(|step: Step, lease| {
                        drop(began);
                        let _ = word.recv();
                        commits(&step, lease)
                    })
                });
                let _ = begins.recv();
                let shutdown = scope.spawn(|| running.shutdown(patience));
                if is_patient {
                    eventually(SOON, "it stops", || {
                        !log.with(&format!("stopping worker={worker}")).is_empty()
                    });
                    drop(go);
                    assert_eq!(run.join().unwrap(), Settled::Completed);
                    let report = shutdown.join().unwrap();
                    assert_eq!((report.completed, report.abandoned), (1, 0));
                } else {
                    let report = shutdown.join().unwrap();
                    assert_eq!((report.completed, report.abandoned), (0, 1));
                    assert!(watch.is_lost());
                    assert_eq!(standing(&mut conn, id), ("ready".to_owned(), 0, 2));
                    drop(go);
                    assert_eq!(run.join().unwrap(), Settled::Lost(Refusal::Lost { generation: 2 }));
                }
            });
        }
        assert_eq!(db.integer("SELECT count(*) FROM effects"), 1);
    }
);

conformance!(
    fn jobs_and_callers_may_be_on_any_thread(db: &mut Db) {
        fn is_sent<T: Send>() {}
        fn is_shared<T: Sync + Send>() {}
        is_sent::<ClaimedJob<Connection>>();
        is_shared::<Running<Connection, App>>();
        prepare(db);
    }
);
