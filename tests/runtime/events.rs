use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use leasehold::inspect::State;
use leasehold::{EnqueueOptions, Hooks, Job, JobInfo, Refusal, Worker};
use leasehold_tests::jobs::{SOON, Step, Then, app, claim_and_die, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};

/// Tells each event, as `event id attempt generation`.
struct Tell(Sender<String>);

impl Tell {
    fn tell(&self, event: &str, job: &JobInfo<'_>) {
        let _ = self
            .0
            .send(format!("{event} {} {} {}", job.id, job.attempt, job.generation));
    }
}

impl Hooks for Tell {
    fn claimed(&self, job: &JobInfo<'_>) {
        self.tell("claimed", job);
    }
    fn failed(&self, job: &JobInfo<'_>, cause: &str, error: &str) {
        assert!(
            ["error", "panic", "lease expired"].contains(&cause) && !error.is_empty(),
            "{cause}: {error}"
        );
        self.tell("failed", job);
    }
    fn begun(&self, job: &JobInfo<'_>) {
        self.tell("begun", job);
    }
    fn completed(&self, job: &JobInfo<'_>) {
        self.tell("completed", job);
    }
    fn retried(&self, job: &JobInfo<'_>, error: &str, after: Duration) {
        assert!(error.contains(&format!("attempt {}", job.attempt)), "{error}");
        assert_eq!(after, Duration::from_millis(20));
        self.tell("retried", job);
    }
    fn snoozed(&self, job: &JobInfo<'_>, after: Duration) {
        assert_eq!(after, Duration::from_millis(20));
        self.tell("snoozed", job);
    }
    fn discarded(&self, job: &JobInfo<'_>, reason: &str) {
        assert_eq!(reason, "not to be done");
        self.tell("discarded", job);
    }
    fn cancelled(&self, job: &JobInfo<'_>, reason: &str) {
        assert_eq!(reason, "not needed");
        self.tell("cancelled", job);
    }
    fn lost(&self, job: &JobInfo<'_>, _: &Refusal) {
        self.tell("lost", job);
    }
    fn released(&self, job: &JobInfo<'_>) {
        self.tell("released", job);
    }
    fn swept(&self, job: &JobInfo<'_>, state: State) {
        assert_eq!(state, State::Ready);
        self.tell("swept", job);
    }
}

conformance!(
    fn each_event_is_told_once_to_the_hook_and_once_to_the_log(db: &mut Db) {
        let mut conn = prepare(db);
        let log = capture_log();
        let queue = format!("events-{}", Db::BACKEND);
        let options = EnqueueOptions::new().queue(&queue);
        let mut enqueue = |n, then| {
            let step = Step::now(n, then);
            step.enqueue_with(&mut conn, &options).unwrap().id()
        };
        let committed = enqueue(1, Then::Commit);
        let finished = enqueue(2, Then::Finish);
        let retried = enqueue(3, Then::FailUntil(2));
        let panicked = enqueue(4, Then::PanicUntil(2));
        let snoozed = enqueue(5, Then::Snooze);
        let discarded = enqueue(6, Then::Discard);
        let cancelled = enqueue(7, Then::Cancel);
        let (tell, told) = unbounded();
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app)
            .queues([&queue])
            .hooks(Tell(tell));
        worker.register::<Step>().run_until_empty().unwrap();
        let told: Vec<String> = told.iter().collect();
        let expected = [
            (committed, vec!["claimed 1 1", "begun 1 1", "completed 1 1"]),
            (finished, vec!["claimed 1 1", "begun 1 1", "completed 1 1"]),
            (
                retried,
                vec![
                    "claimed 1 1",
                    "begun 1 1",
                    "failed 1 1",
                    "retried 1 1",
                    "claimed 2 2",
                    "begun 2 2",
                    "completed 2 2",
                ],
            ),
            (
                panicked,
                vec![
                    "claimed 1 1",
                    "begun 1 1",
                    "failed 1 1",
                    "retried 1 1",
                    "claimed 2 2",
                    "begun 2 2",
                    "completed 2 2",
                ],
            ),
            (
                snoozed,
                vec![
                    "claimed 1 1",
                    "begun 1 1",
                    "snoozed 1 1",
                    "claimed 1 2",
                    "begun 1 2",
                    "completed 1 2",
                ],
            ),
            (
                discarded,
                vec!["claimed 1 1", "begun 1 1", "failed 1 1", "discarded 1 1"],
            ),
            (cancelled, vec!["claimed 1 1", "begun 1 1", "cancelled 1 1"]),
        ];
        for (id, events) in expected {
            // One job's events are told in their order.
            let of_the_job: Vec<String> = told
                .iter()
                .filter(|line| line.split(' ').nth(1) == Some(&id.to_string()))
                .map(|line| line.replacen(&format!(" {id} "), " ", 1))
                .collect();
            assert_eq!(of_the_job, events, "job {id}");
            let logged: Vec<String> = log
                .with(&format!("job={id} queue={queue:?} kind=\"step\" "))
                .iter()
                .map(|record| record.message.clone())
                .collect();
            // The line of what follows on a failure has its error.
            let lines: Vec<_> = events.iter().filter(|event| !event.starts_with("failed")).collect();
            assert_eq!(logged.len(), lines.len(), "{logged:#?}");
            for (line, event) in logged.iter().zip(lines) {
                let [event, attempt, generation] = event.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("three words");
                };
                assert!(line.starts_with(event), "{line}");
                let fence = format!("attempt={attempt} generation={generation}");
                assert!(line.contains(&fence), "{line}");
            }
        }
    }
);

conformance!(
    fn a_swept_and_a_lost_job_are_told_of_with_their_generations(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let (tell, told) = unbounded();
        let (app, remote) = app();
        let running = Worker::<Connection, _>::new(db.url(), app)
            .sweep_interval(Duration::from_millis(20))
            .hooks(Tell(tell))
            .register::<Step>()
            .start()
            .unwrap();
        let handler = remote.begun();
        let events: Vec<String> = (0..4).map(|_| told.recv_timeout(SOON).unwrap()).collect();
        // Each thread tells in its order; which of the two is first, nobody can say.
        let of = |first: &str, then: &str| -> Vec<&str> {
            let events = events.iter().map(String::as_str);
            events
                .filter(|event| event.starts_with(first) || event.starts_with(then))
                .collect()
        };
        assert_eq!(
            of("failed", "swept"),
            [format!("failed {id} 1 2"), format!("swept {id} 1 2")]
        );
        assert_eq!(
            of("claimed", "begun"),
            [format!("claimed {id} 2 3"), format!("begun {id} 2 3")]
        );
        // Taken away behind the handler's back.
        db.set_time("leasehold.jobs", "lease_until", -1, "state = 'running'");
        let next_of_the_sweep = || {
            let sweeps = |event: &String| event.starts_with("failed") || event.starts_with("swept");
            std::iter::repeat_with(|| told.recv_timeout(SOON).unwrap()).find(sweeps)
        };
        assert_eq!(next_of_the_sweep(), Some(format!("failed {id} 2 4")));
        assert_eq!(next_of_the_sweep(), Some(format!("swept {id} 2 4")));
        handler.go();
        assert!(remote.ended().refusal.is_some());
        eventually(SOON, "the loss is told", || {
            told.try_iter().any(|line| line == format!("lost {id} 2 3"))
        });
        assert_eq!(running.counts().lost, 1);
    }
);
