use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::inbox;
use leasehold::outbox::{self, Event};
use leasehold::{Backend, Schema};
use leasehold_tests::jobs::{Effects, SOON, prepare};
use leasehold_tests::{Answer, Receiver, Request, TestDb, WorkerProcess, conformance, eventually};

use crate::PROGRAM;

/// Unless `LEASEHOLD_RELAY_KILLS` says otherwise.
const KILLS: usize = 12;
const PROCESSES: usize = 3;
const EMITTERS: i64 = 2;
/// Of each emitter.
const KEYS: i64 = 8;
/// The pace of the kills, at random up to this.
const PACE_MS: u64 = 150;

/// One delivery, in the order of their arrival.
#[derive(Debug, Clone)]
struct Arrival {
    event_id: String,
    body: String,
    /// Whether it was answered as delivered, as far as the receiver knows.
    ok: bool,
}

/// Counts every delivery before it answers. Some it refuses after it has counted them.
fn receive<C: Effects>(request: &Request, arrivals: &Mutex<Vec<Arrival>>, consumer: &Mutex<C>) -> Answer {
    let event_id = request.headers["webhook-id"].clone();
    assert_eq!(request.headers["idempotency-key"], event_id);
    let n: i64 = request.body.parse().unwrap();
    let ok = fastrand::u32(..100) >= 4;
    // The order of arrival is that of this lock.
    let mut arrivals = arrivals.lock().unwrap();
    arrivals.push(Arrival {
        event_id: event_id.clone(),
        body: request.body.clone(),
        ok,
    });
    let mut conn = consumer.lock().unwrap();
    let applied = conn.transaction(|tx| {
        if inbox::accept(tx, &Schema::default(), "test", event_id.parse().unwrap())? {
            tx.note(n)?;
        }
        Ok::<_, inbox::InboxError>(())
    });
    applied.unwrap();
    Answer::status(if ok { 204 } else { 503 })
}

/// Stops the emitters, also when the test fails before it gets to that.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Emits events of its own keys, each in a transaction, until told to stop; some are rolled back. How many are there.
fn emit<C: Backend>(conn: &mut C, emitter: i64, stop: &AtomicBool) -> i64 {
    let mut emitted = 0;
    while !stop.load(Ordering::Acquire) {
        let n = emitted * EMITTERS + emitter;
        let key = format!("{emitter}-{}", emitted % KEYS);
        let rolls_back = fastrand::u32(..10) == 0;
        let done = conn.transaction(|tx| {
            outbox::emit(tx, &Schema::default(), &Event::new("t", &n).key(key)).unwrap();
            if rolls_back {
                return Err(diesel::result::Error::RollbackTransaction);
            }
            Ok(())
        });
        assert_eq!(done.is_err(), rolls_back, "{done:?}");
        if !rolls_back {
            emitted += 1;
        }
        // No faster than relays deliver, or nothing would be left of the order in which they come.
        std::thread::sleep(Duration::from_millis(5));
    }
    emitted
}

/// That no event of a key arrived before the one that precedes it had been taken.
fn check_order(arrivals: &[Arrival]) {
    let mut taken: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for arrival in arrivals {
        let n: i64 = arrival.body.parse().unwrap();
        let (emitter, place) = (n % EMITTERS, n / EMITTERS);
        let key = emitter + EMITTERS * (place % KEYS);
        let taken = taken.entry(key).or_default();
        let before = place - KEYS;
        assert!(
            before < 0 || taken.contains(&before),
            "{n} arrived before {before} of its key was taken"
        );
        if arrival.ok {
            taken.insert(place);
        }
    }
}

conformance!(
    /// Issue 4: killed between sending and marking, or at any other instant, a relay loses nothing.
    fn killed_relays_lose_no_event_and_keep_the_order_of_each_key(db: &mut Db) {
        let kills = std::env::var("LEASEHOLD_RELAY_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
        let mut conns: Vec<_> = std::iter::once(prepare(db))
            .chain((1..EMITTERS).map(|_| db.connect()))
            .collect();
        let (arrivals, consumer) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(db.connect()));
        let receiver = Receiver::start({
            let arrivals = Arc::clone(&arrivals);
            move |request| receive(request, &arrivals, &consumer)
        });
        let (url, mode) = (db.url(), format!("relay={}", receiver.url("/")));
        let start = || WorkerProcess::start(PROGRAM, &mode, &url);
        let mut processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
        let (stop, begin) = (&AtomicBool::new(false), Instant::now());
        let emitted: Vec<i64> = std::thread::scope(|scope| {
            let guard = Stop(stop);
            let emitters: Vec<_> = (0..)
                .zip(&mut conns)
                .map(|(emitter, conn)| scope.spawn(move || emit(conn, emitter, stop)))
                .collect();
            eventually(SOON, "the first events arrive", || !arrivals.lock().unwrap().is_empty());
            for _ in 0..kills {
                let seen = arrivals.lock().unwrap().len();
                // The pace of the kills; and between two of them something is delivered, or nothing would be interrupted.
                std::thread::sleep(Duration::from_millis(fastrand::u64(..PACE_MS)));
                eventually(SOON, "relays go on", || arrivals.lock().unwrap().len() > seen);
                let victim = fastrand::usize(..PROCESSES);
                processes[victim].kill();
                processes[victim] = start();
            }
            drop(guard);
            emitters.into_iter().map(|emitter| emitter.join().unwrap()).collect()
        });
        eventually(SOON, "every event is delivered", || {
            db.integer("SELECT count(*) FROM leasehold.outbox_events") == 0
        });
        drop(processes);

        let arrivals = arrivals.lock().unwrap().clone();
        let total: i64 = emitted.iter().sum();
        let events: BTreeSet<_> = arrivals
            .iter()
            .map(|arrival| (&arrival.event_id, &arrival.body))
            .collect();
        let ids: BTreeSet<_> = arrivals.iter().map(|arrival| &arrival.event_id).collect();
        let bodies: BTreeSet<i64> = arrivals.iter().map(|arrival| arrival.body.parse().unwrap()).collect();
        let refused = arrivals.iter().filter(|arrival| !arrival.ok).count();
        eprintln!(
            "{}: {kills} kills in {:?}: {total} events, {} deliveries, {refused} of them refused, {} by kills more than once",
            Db::BACKEND,
            begin.elapsed(),
            arrivals.len(),
            arrivals.len() - refused - events.len(),
        );
        for (emitter, emitted) in (0..).zip(&emitted) {
            assert!(
                (0..*emitted).all(|place| bodies.contains(&(place * EMITTERS + emitter))),
                "none is lost"
            );
        }
        assert_eq!(
            i64::try_from(bodies.len()),
            Ok(total),
            "nothing that was rolled back arrives"
        );
        assert_eq!(
            (events.len(), ids.len()),
            (bodies.len(), bodies.len()),
            "one id for each event, whatever repeats it"
        );
        check_order(&arrivals);
        assert_eq!(db.integer("SELECT count(*) FROM effects"), total);
        assert_eq!(db.integer("SELECT count(DISTINCT n) FROM effects"), total);
    }
);
