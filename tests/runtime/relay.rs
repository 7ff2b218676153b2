//! Relays: in the order of each key, with retries, beside jobs and beside each other.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::Connection as _;
use leasehold::__private::{RelayStatements as _, SweptEvent};
use leasehold::error::RegistryError;
use leasehold::outbox::{self, DeliverError, Delivery, Event, EventInfo, Relay};
use leasehold::{Backend, Backoff, Hooks, Job, Schema, StartError, Worker};
use leasehold_tests::jobs::{App, HOUR, Note, SOON, Step, Then, app, prepare};
use leasehold_tests::{TestDb, capture_log, conformance, eventually};
use uuid::Uuid;

const MOMENT: Duration = Duration::from_millis(20);

#[track_caller]
fn emit<C: Backend>(conn: &mut C, topic: &str, key: Option<&str>, n: i64) -> Uuid {
    let event = Event::new(topic, &n).max_attempts(3);
    let event = match key {
        Some(key) => event.key(key),
        None => event,
    };
    outbox::emit(conn, &Schema::default(), &event).unwrap()
}

/// Tries again at once; what `fails` says yes to fails. The deliveries are logged in their order.
fn logging(fails: impl Fn(i64, u32) -> bool + Send + Sync + 'static) -> (Relay, Arc<Mutex<Vec<i64>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let relay = Relay::new({
        let log = Arc::clone(&log);
        move |delivery: &Delivery<'_>| {
            let n = delivery.payload()?;
            log.lock().unwrap().push(n);
            match fails(n, delivery.attempt()) {
                true => Err(DeliverError::retry("not now")),
                false => Ok(()),
            }
        }
    });
    (relay.backoff(Backoff::fixed(MOMENT)), log)
}

/// A delivery that waits for the test's word.
struct Waiting {
    n: i64,
    go: Sender<Result<(), DeliverError>>,
}

fn waiting() -> (Relay, Receiver<Waiting>) {
    let (begun, begins) = channel();
    let begun = Mutex::new(begun);
    let relay = Relay::new(move |delivery: &Delivery<'_>| {
        let (go, word) = channel();
        let n = delivery.payload()?;
        let _ = begun.lock().unwrap().send(Waiting { n, go });
        // A test that is over lets go of everything.
        word.recv().unwrap_or(Ok(()))
    });
    (relay.backoff(Backoff::fixed(MOMENT)), begins)
}

#[track_caller]
fn next(begins: &Receiver<Waiting>, n: i64) -> Sender<Result<(), DeliverError>> {
    let waiting = begins.recv_timeout(SOON).expect("a delivery begins");
    assert_eq!(waiting.n, n);
    waiting.go
}

fn left<D: TestDb>(db: &mut D) -> i64 {
    db.integer("SELECT count(*) FROM leasehold.outbox_events")
}

fn running<D: TestDb>(db: &mut D) -> i64 {
    db.integer("SELECT count(*) FROM leasehold.outbox_events WHERE state = 'running'")
}

conformance!(
    fn a_failed_delivery_holds_the_later_events_of_its_key_and_no_others(db: &mut Db) {
        let mut conn = prepare(db);
        for n in 1..=3 {
            emit(&mut conn, "t", Some("a"), n);
            emit(&mut conn, "t", Some("b"), 10 + n);
        }
        let (relay, log) = logging(|n, attempt| n == 2 && attempt < 3);
        let summary = Worker::<Connection, _>::new(db.url(), ())
            .relay_with("t", relay)
            .run_until_empty()
            .unwrap();
        let log = log.lock().unwrap();
        let of = |key: i64| log.iter().copied().filter(|n| n / 10 == key).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![1, 2, 2, 2, 3], vec![11, 12, 13]));
        assert!(
            log.iter().position(|n| *n == 13) < log.iter().rposition(|n| *n == 2),
            "{log:?}"
        );
        assert_eq!(
            (
                summary.counts.delivered,
                summary.counts.delivery_failed,
                summary.counts.dead
            ),
            (6, 2, 0)
        );
        assert!(summary.is_success());
        assert_eq!(left(db), 0);
    }
);

conformance!(
    fn a_panic_is_a_failed_attempt_and_the_relay_goes_on(db: &mut Db) {
        let mut conn = prepare(db);
        emit(&mut conn, "t", Some("a"), 1);
        emit(&mut conn, "t", Some("a"), 2);
        let (relay, log) = logging(|n, attempt| {
            assert!(n == 2 || attempt > 1, "on its head");
            false
        });
        let worker = Worker::<Connection, _>::new(db.url(), ()).relay_with("t", relay);
        let log_of_it = capture_log();
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.delivered, summary.counts.delivery_failed), (2, 1));
        assert_eq!(
            *log.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            [1, 1, 2]
        );
        assert!(!log_of_it.with("panicked: on its head").is_empty());
    }
);

conformance!(
    fn after_its_last_attempt_an_event_is_dead_and_its_key_goes_on(db: &mut Db) {
        let mut conn = prepare(db);
        let dead = emit(&mut conn, "t", Some("a"), 1);
        emit(&mut conn, "t", Some("a"), 2);
        let (relay, log) = logging(|n, _| n == 1);
        let summary = Worker::<Connection, _>::new(db.url(), ())
            .relay_with("t", relay)
            .run_until_empty()
            .unwrap();
        assert_eq!(*log.lock().unwrap(), [1, 1, 1, 2]);
        assert_eq!((summary.counts.delivered, summary.counts.dead), (1, 1));
        assert!(!summary.is_success());
        let kept = outbox::dead(&mut conn, &Schema::default(), None, 0, 10).unwrap();
        assert_eq!(
            (kept.len(), kept[0].event_id, kept[0].error.as_str(), kept[0].attempt),
            (1, dead, "not now", 3)
        );
    }
);

conformance!(
    fn a_delivery_may_say_that_no_try_helps_or_when_the_next_one_is(db: &mut Db) {
        let mut conn = prepare(db);
        emit(&mut conn, "t", None, 1);
        emit(&mut conn, "t", None, 2);
        let relay = Relay::new(|delivery: &Delivery<'_>| match delivery.payload()? {
            1 => Err(DeliverError::dead("no\0 such order")),
            _ => Err(DeliverError::retry_after("closed", HOUR)),
        });
        // It does not wait for what comes after its patience.
        let summary = Worker::<Connection, _>::new(db.url(), ())
            .relay_with("t", relay)
            .patience(Duration::from_secs(1))
            .run_until_empty()
            .unwrap();
        assert_eq!((summary.counts.delivery_failed, summary.counts.dead), (1, 1));
        let counts = outbox::counts(&mut conn, &Schema::default()).unwrap();
        assert_eq!((counts[0].retrying, counts[0].dead), (1, 1));
        let dead = outbox::dead(&mut conn, &Schema::default(), Some("t"), 0, 10).unwrap();
        assert_eq!(dead[0].error, "no\u{fffd} such order");
    }
);

conformance!(
    fn a_relay_that_halts_keeps_a_key_until_its_dead_event_is_seen_to(db: &mut Db) {
        let mut conn = prepare(db);
        let first = emit(&mut conn, "t", Some("a"), 1);
        emit(&mut conn, "t", Some("a"), 2);
        emit(&mut conn, "t", Some("b"), 3);
        let fail = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let (relay, log) = logging({
            let fail = Arc::clone(&fail);
            move |n, _| n == 1 && fail.load(std::sync::atomic::Ordering::SeqCst)
        });
        let running = Worker::<Connection, _>::new(db.url(), ())
            .poll_interval(MOMENT)
            .relay_with("t", relay.halt_on_dead())
            .start()
            .unwrap();
        eventually(SOON, "the first is dead", || running.counts().dead == 1);
        eventually(SOON, "the other key goes on", || running.counts().delivered == 1);
        fail.store(false, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(outbox::redeliver(&mut conn, &Schema::default(), &[first]).unwrap(), 1);
        eventually(SOON, "both are delivered", || running.counts().delivered == 3);
        let of_a: Vec<i64> = log.lock().unwrap().iter().copied().filter(|n| *n < 3).collect();
        assert_eq!(of_a, [1, 1, 1, 1, 2]);
    }
);

conformance!(
    fn a_topic_has_one_relay_and_a_worker_something_to_do(db: &mut Db) {
        prepare(db);
        let worker = || Worker::<Connection, ()>::new(db.url(), ());
        let nothing = |_: &Delivery<'_>| Ok(());
        let twice = worker()
            .relay("t", nothing)
            .relay("u", nothing)
            .relay("t", nothing)
            .start();
        assert!(
            matches!(&twice, Err(StartError::RelayTwice(topic)) if topic == "t"),
            "{twice:?}"
        );
        let named = worker().relay("", nothing).start();
        assert!(matches!(named, Err(StartError::Topic(_))), "{named:?}");
        let idle = worker().start();
        assert!(
            matches!(idle, Err(StartError::Registry(RegistryError::Nothing))),
            "{idle:?}"
        );
        worker().relay("t", nothing).relay("u", nothing).start().unwrap();
    }
);

conformance!(
    fn an_idle_relay_hears_of_an_event_without_a_poll(db: &mut Db) {
        let mut conn = prepare(db);
        let (relay, begins) = waiting();
        let _running = Worker::<Connection, ()>::new(db.url(), ())
            .poll_interval(HOUR)
            .relay_with("t", relay)
            .start()
            .unwrap();
        for n in 1..=3 {
            emit(&mut conn, "t", None, n);
            next(&begins, n).send(Ok(())).unwrap();
            eventually(SOON, "it is marked", || left(db) == 0);
            let commits = conn.transaction(|tx| {
                emit(tx, "t", None, 10 + n);
                Ok::<_, diesel::result::Error>(())
            });
            commits.unwrap();
            next(&begins, 10 + n).send(Ok(())).unwrap();
            eventually(SOON, "it is marked", || left(db) == 0);
        }
    }
);

conformance!(
    #[skip(sqlite, "there is nothing to listen to: the poll finds it")]
    fn an_idle_relay_hears_of_another_programs_event_by_a_notification(db: &mut Db) {
        prepare(db);
        let (relay, begins) = waiting();
        let _running = Worker::<Connection, ()>::new(db.url(), ())
            .poll_interval(HOUR)
            .relay_with("t", relay)
            .start()
            .unwrap();
        for n in 1..=3 {
            // By hand, so that nothing in this process tells the relay.
            db.sql(&format!(
                "INSERT INTO leasehold.outbox_events (event_id, topic, payload, max_attempts)
                 VALUES (gen_random_uuid(), 't', '{n}', 1); SELECT pg_notify('leasehold_outbox', '')"
            ));
            next(&begins, n).send(Ok(())).unwrap();
            eventually(SOON, "it is marked", || left(db) == 0);
        }
    }
);

conformance!(
    fn a_slow_delivery_holds_up_neither_jobs_nor_heartbeats_nor_other_topics(db: &mut Db) {
        let mut conn = prepare(db);
        emit(&mut conn, "slow", None, 1);
        let (slow, begins) = waiting();
        let (quick, log) = logging(|_, _| false);
        let (app, remote) = app();
        let running = Worker::<Connection, App>::new(db.url(), app)
            .threads(2)
            .relay_with("slow", slow)
            .relay_with("quick", quick)
            .register::<Step>()
            .start()
            .unwrap();
        let go = next(&begins, 1);
        Step::now(1, Then::Finish).enqueue(&mut conn).unwrap();
        Step::waiting(2).enqueue(&mut conn).unwrap();
        emit(&mut conn, "quick", None, 3);
        eventually(SOON, "the other topic is delivered", || *log.lock().unwrap() == [3]);
        eventually(SOON, "a job is settled", || running.counts().completed == 1);
        let held = [remote.begun(), remote.begun()]
            .into_iter()
            .find(|begun| begun.n == 2)
            .unwrap();
        // Its next heartbeat is wanted now.
        let until = "SELECT CAST(lease_until AS text) FROM leasehold.jobs WHERE worker IS NOT NULL";
        let before = db.text(until);
        leasehold::manage::cancel(
            &mut conn,
            &Schema::default(),
            held.id,
            leasehold::manage::Cancel::Soft,
            "ops",
            "a beat is due at once",
        )
        .unwrap();
        eventually(SOON, "its lease is renewed", || db.text(until) != before);
        assert_eq!(running.counts().delivered, 1);
        go.send(Ok(())).unwrap();
        eventually(SOON, "the slow one is delivered", || running.counts().delivered == 2);
        held.go();
    }
);

conformance!(
    fn a_shutdown_ends_the_delivery_that_runs_and_gives_back_the_rest(db: &mut Db) {
        let mut conn = prepare(db);
        for n in 1..=3 {
            emit(&mut conn, "t", Some("a"), n);
        }
        let (relay, begins) = waiting();
        let running_worker = Worker::<Connection, ()>::new(db.url(), ())
            .relay_with("t", relay)
            .start()
            .unwrap();
        let go = next(&begins, 1);
        assert_eq!(running(db), 3);
        std::thread::scope(|scope| {
            scope.spawn(|| running_worker.shutdown(SOON));
            eventually(SOON, "the rest is given back", || running(db) == 1);
            let attempts = "SELECT max(attempt) FROM leasehold.outbox_events WHERE state = 'ready'";
            assert_eq!(db.integer(attempts), 0);
            go.send(Ok(())).unwrap();
        });
        assert_eq!((left(db), running(db)), (2, 0));
        assert!(begins.try_recv().is_err());
    }
);

conformance!(
    fn a_shutdown_without_patience_leaves_the_delivery_that_runs_to_its_lease(db: &mut Db) {
        let mut conn = prepare(db);
        for n in 1..=3 {
            emit(&mut conn, "t", Some("a"), n);
        }
        let (relay, begins) = waiting();
        let worker = Worker::<Connection, ()>::new(db.url(), ())
            .relay_with("t", relay)
            .start()
            .unwrap();
        let go = next(&begins, 1);
        drop(worker);
        assert_eq!((left(db), running(db)), (3, 1));
        // Nobody delivers the later ones of its key beside it.
        let (relay, log) = logging(|_, _| false);
        let second = Worker::<Connection, ()>::new(db.url(), ())
            .poll_interval(MOMENT)
            .relay_with("t", relay)
            .start()
            .unwrap();
        emit(&mut conn, "t", Some("b"), 4);
        eventually(SOON, "another key is", || *log.lock().unwrap() == [4]);
        go.send(Ok(())).unwrap();
        eventually(SOON, "the rest follows its end", || *log.lock().unwrap() == [4, 2, 3]);
        eventually(SOON, "all are marked", || left(db) == 0);
        drop(second);
    }
);

conformance!(
    fn a_lease_is_renewed_between_two_deliveries(db: &mut Db) {
        let mut conn = prepare(db);
        for n in 1..=3 {
            emit(&mut conn, "t", Some("a"), n);
        }
        let (relay, begins) = waiting();
        let lease = Duration::from_secs(6);
        let worker = Worker::<Connection, ()>::new(db.url(), ()).relay_with("t", relay.lease(lease));
        let _running = worker.start().unwrap();
        let go = next(&begins, 1);
        let until = "SELECT max(CAST(lease_until AS text)) FROM leasehold.outbox_events";
        let claimed = db.text(until);
        // A third of the lease passes.
        std::thread::sleep(lease / 3 + MOMENT);
        go.send(Ok(())).unwrap();
        let go = next(&begins, 2);
        assert!(db.text(until) > claimed);
        go.send(Ok(())).unwrap();
        next(&begins, 3).send(Ok(())).unwrap();
        eventually(SOON, "all are marked", || left(db) == 0);
    }
);

/// Tells a test under which generation an event was delivered.
struct Generations(Arc<Mutex<Vec<i64>>>);

impl Hooks for Generations {
    fn delivered(&self, event: &EventInfo<'_>) {
        self.0.lock().unwrap().push(event.generation);
    }
}

conformance!(
    fn what_was_taken_over_meanwhile_is_not_delivered_by_its_old_relay(db: &mut Db) {
        let mut conn = prepare(db);
        for n in 1..=3 {
            emit(&mut conn, "t", Some("a"), n);
        }
        let (relay, begins) = waiting();
        let lease = Duration::from_secs(6);
        let generations = Arc::new(Mutex::new(Vec::new()));
        let _running = Worker::<Connection, ()>::new(db.url(), ())
            .hooks(Generations(Arc::clone(&generations)))
            .relay_with("t", relay.lease(lease))
            .start()
            .unwrap();
        let go = next(&begins, 1);
        db.set_time("leasehold.outbox_events", "lease_until", -1, "1 = 1");
        let swept: Vec<SweptEvent> = conn.sweep_events(&Schema::default(), "t", 10).unwrap();
        assert_eq!(swept.len(), 3);
        std::thread::sleep(lease / 3 + MOMENT);
        go.send(Ok(())).unwrap();
        // Its mark is refused, so it comes again, and the others are claimed anew: one after the other.
        for n in 1..=3 {
            next(&begins, n).send(Ok(())).unwrap();
        }
        eventually(SOON, "all are marked", || left(db) == 0);
        eventually(SOON, "all are told", || generations.lock().unwrap().len() == 3);
        assert_eq!(*generations.lock().unwrap(), [3, 3, 3]);
    }
);

conformance!(
    fn deliveries_that_enqueue_and_jobs_that_emit_all_end_before_the_run_does(db: &mut Db) {
        let mut conn = prepare(db);
        emit(&mut conn, "t", None, 5);
        let url = db.url();
        let enqueue = Mutex::new(db.connect());
        let relay = move |delivery: &Delivery<'_>| {
            let n: i64 = delivery.payload()?;
            let mut conn = enqueue.lock().unwrap();
            Note { n }.enqueue(&mut *conn)?;
            if n > 1 {
                emit(&mut *conn, "t", None, n - 1);
            }
            Ok(())
        };
        let summary = Worker::<Connection, App>::new(url, app().0)
            .register::<Note>()
            .relay("t", relay)
            .run_until_empty()
            .unwrap();
        assert_eq!((summary.counts.delivered, summary.counts.completed), (5, 5));
        assert_eq!(left(db), 0);
    }
);

conformance!(
    fn a_backlog_behind_more_keys_than_a_look_takes_is_delivered(db: &mut Db) {
        let mut conn = prepare(db);
        let events: Vec<Event> = (0..1500)
            .map(|n| Event::new("t", &n).key(format!("key {}", n % 600)))
            .collect();
        outbox::emit_all(&mut conn, &Schema::default(), &events).unwrap();
        // Those of half the keys have to wait.
        db.set_time("leasehold.outbox_events", "run_at", 3_600_000, "key < 'key 3'");
        let (relay, log) = logging(|_, _| false);
        let summary = Worker::<Connection, ()>::new(db.url(), ())
            .relay_with("t", relay.threads(2))
            .run_until_empty()
            .unwrap();
        let waiting = usize::try_from(left(db)).unwrap();
        let log = log.lock().unwrap();
        assert!(waiting > 300 && waiting < 900, "{waiting}");
        assert_eq!(
            (log.len(), summary.counts.delivered),
            (1500 - waiting, 1500 - waiting as u64)
        );
        for key in 0..600 {
            assert!(log.iter().filter(|n| *n % 600 == key).is_sorted());
        }
    }
);

conformance!(
    #[skip(sqlite, "SQLite has one writer, and no lock beside that")]
    fn a_relay_leaves_a_topic_to_the_one_that_claims_from_it(db: &mut Db) {
        let (mut conn, mut other) = (prepare(db), db.connect());
        let ((held, log), (free, freely)) = (logging(|_, _| false), logging(|_, _| false));
        let running = Worker::<Connection, ()>::new(db.url(), ())
            .poll_interval(MOMENT)
            .relay_with("t", held)
            .relay_with("u", free)
            .start()
            .unwrap();
        other
            .transaction(|other| {
                assert!(other.try_lock_topic(&Schema::default(), "t")?);
                emit(&mut conn, "t", None, 1);
                for n in 1..=5 {
                    emit(&mut conn, "u", None, n);
                    eventually(SOON, "the other topic goes on", || {
                        freely.lock().unwrap().len() == n as usize
                    });
                }
                assert!(log.lock().unwrap().is_empty());
                Ok::<_, diesel::result::Error>(())
            })
            .unwrap();
        eventually(SOON, "it is delivered then", || running.counts().delivered == 6);
    }
);

conformance!(
    fn workers_forget_what_inboxes_accepted_long_ago(db: &mut Db) {
        let mut conn = prepare(db);
        conn.transaction(|tx| {
            for _ in 0..3 {
                leasehold::inbox::accept(tx, &Schema::default(), "test", Uuid::new_v4())?;
            }
            Ok::<_, leasehold::inbox::InboxError>(())
        })
        .unwrap();
        let of_one = "event_id = (SELECT event_id FROM leasehold.inbox_events ORDER BY event_id LIMIT 1)";
        db.set_time("leasehold.inbox_events", "at", -31 * 24 * 3_600_000, of_one);
        let _running = Worker::<Connection, ()>::new(db.url(), ())
            .relay("t", |_: &Delivery<'_>| Ok(()))
            .start()
            .unwrap();
        eventually(SOON, "the old one is forgotten", || {
            db.integer("SELECT count(*) FROM leasehold.inbox_events") == 2
        });
    }
);
