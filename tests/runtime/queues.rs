use leasehold::{EnqueueOptions, Job, StartError, Worker};
use leasehold_tests::jobs::{App, Begun, HOUR, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance, eventually};

conformance!(
    fn no_more_than_its_threads_run_a_queues_jobs_and_the_others_are_left_to_the_rest(db: &mut Db) {
        let mut conn = prepare(db);
        let mail = EnqueueOptions::new().queue("mail");
        for (unbatched, prefetch) in [(false, 0), (false, 10), (true, 0)] {
            let (app, remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .threads(4)
                .fixed_batch(prefetch)
                .poll_interval(HOUR);
            let worker = if unbatched { worker.unbatched() } else { worker };
            // Twice, and the last word counts.
            let worker = worker
                .queues(["mail", "default"])
                .queue_threads("mail", 9)
                .queue_threads("mail", 2);
            let steps: Vec<Step> = (1..=6).map(Step::waiting).collect();
            Step::enqueue_all(&steps, &mut conn, &mail).unwrap();
            let running = worker.register::<Step>().start().unwrap();
            let mut begun: Vec<Begun> = (0..2).map(|_| remote.begun()).collect();
            // Two threads are left, however much mail waits.
            for n in 11..=12 {
                Step::waiting(n).enqueue(&mut conn).unwrap();
            }
            let others: Vec<Begun> = (0..2).map(|_| remote.begun()).collect();
            assert!(others.iter().all(|begun| begun.n > 10), "{others:?}");
            others.into_iter().for_each(Begun::go);
            eventually(SOON, "the others are completed", || running.counts().completed == 2);
            // Each end lets the next one begin, though two threads have nothing to do and nobody polls.
            for _ in 0..4 {
                assert!(remote.nothing_begun());
                begun.remove(0).go();
                begun.push(remote.begun());
            }
            begun.into_iter().for_each(Begun::go);
            eventually(SOON, "all are completed", || running.counts().completed == 8);
        }
    }
);

conformance!(
    fn a_batch_with_capped_queues_runs_until_all_are_empty(db: &mut Db) {
        let mut conn = prepare(db);
        for queue in ["mail", "print", "default"] {
            let steps: Vec<Step> = (1..=20).map(|n| Step::now(n, Then::Finish)).collect();
            Step::enqueue_all(&steps, &mut conn, &EnqueueOptions::new().queue(queue)).unwrap();
        }
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app).queues(["mail", "print", "default"]);
        let worker = worker
            .queue_threads("mail", 1)
            .queue_threads("print", 1)
            .register::<Step>();
        assert_eq!(worker.run_until_empty().unwrap().counts.completed, 60);
    }
);

conformance!(
    fn threads_for_a_queue_that_is_not_served_are_refused(db: &mut Db) {
        prepare(db);
        let (app, _remote) = app();
        let worker = Worker::<Connection, App>::new(db.url(), app)
            .queue_threads("mial", 2)
            .register::<Step>();
        let refused = worker.start().unwrap_err();
        assert!(
            matches!(&refused, StartError::NotServed(queue) if queue == "mial"),
            "{refused:?}"
        );
    }
);

conformance!(
    fn an_old_job_of_a_low_priority_gets_its_turn_in_a_flood_of_high_ones(db: &mut Db) {
        let mut conn = prepare(db);
        for unbatched in [false, true] {
            let low = EnqueueOptions::new().priority(-100);
            Step::now(0, Then::Finish).enqueue_with(&mut conn, &low).unwrap();
            let flood: Vec<Step> = (1..=300).map(|n| Step::now(n, Then::Finish)).collect();
            Step::enqueue_all(&flood, &mut conn, &EnqueueOptions::new().priority(100)).unwrap();
            let (app, remote) = app();
            // A job in each claim.
            let worker = Worker::<Connection, App>::new(db.url(), app).threads(1).fixed_batch(0);
            let worker = if unbatched { worker.unbatched() } else { worker };
            worker.register::<Step>().run_until_empty().unwrap();
            let order: Vec<i64> = remote.into_channels().0.try_iter().map(|begun| begun.n).collect();
            assert_eq!(order.len(), 301);
            // One claim in sixteen takes the oldest, where looking at everything is cheap; the others go by priority.
            let place = order.iter().position(|n| *n == 0).unwrap();
            assert!((1..=200).contains(&place), "{order:?}");
        }
    }
);

conformance!(
    /// A count that is common to all of them would ask for the oldest of the same one each time.
    fn an_old_job_gets_its_turn_whatever_other_queues_have_threads_of_their_own(db: &mut Db) {
        let mut conn = prepare(db);
        for unbatched in [false, true] {
            let low = EnqueueOptions::new().priority(-100);
            Step::now(0, Then::Finish).enqueue_with(&mut conn, &low).unwrap();
            let flood = |from: i64, count: i64| {
                (from..from + count)
                    .map(|n| Step::now(n, Then::Finish))
                    .collect::<Vec<_>>()
            };
            Step::enqueue_all(&flood(1, 300), &mut conn, &EnqueueOptions::new().priority(100)).unwrap();
            Step::enqueue_all(&flood(1000, 600), &mut conn, &EnqueueOptions::new().queue("mail")).unwrap();
            let (app, remote) = app();
            let worker = Worker::<Connection, App>::new(db.url(), app)
                .threads(1)
                .queues(["mail", "default"])
                .queue_threads("mail", 9)
                .fixed_batch(0);
            let worker = if unbatched { worker.unbatched() } else { worker };
            worker.register::<Step>().run_until_empty().unwrap();
            let order: Vec<i64> = remote.into_channels().0.try_iter().map(|begun| begun.n).collect();
            assert_eq!(order.len(), 901);
            // Of its own queue's claims one in sixteen takes the oldest.
            let ahead = order.iter().take_while(|n| **n != 0).filter(|n| **n < 1000).count();
            assert!((1..=200).contains(&ahead), "{order:?}");
        }
    }
);
