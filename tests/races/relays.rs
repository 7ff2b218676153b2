//! Several relays of one topic, some of which are dropped in the middle, and leases that expire under deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::outbox::{self, DeliverError, Delivery, Event, Relay};
use leasehold::{Backend, Backoff, Running, Schema, Worker};
use leasehold_tests::jobs::{SOON, prepare};
use leasehold_tests::{TestDb, conformance, eventually, race_time};

/// For each second.
const EVENTS: i64 = 300;
const KEYS: i64 = 7;

/// Deliveries in the order in which they began, and whether each succeeded.
type Log = Arc<Mutex<Vec<(i64, bool)>>>;

fn relay<C: Backend>(url: &str, log: &Log, number: u64) -> Running<C, ()> {
    let log = Arc::clone(log);
    let relay = Relay::new(move |delivery: &Delivery<'_>| {
        let n: i64 = delivery.payload()?;
        let fails = n % 13 == 0 && delivery.attempt() < 3;
        log.lock().unwrap().push((n, !fails));
        std::thread::sleep(Duration::from_micros(500 * (n.unsigned_abs() % 3)));
        match fails {
            true => Err(DeliverError::retry("not now")),
            false => Ok(()),
        }
    });
    let relay = relay
        .backoff(Backoff::fixed(Duration::from_millis(10)))
        .batch(usize::try_from(5 + number % 3 * 20).unwrap())
        .threads(2);
    Worker::<C, ()>::new(url, ())
        .poll_interval(Duration::from_millis(20))
        .relay_with("t", relay)
        .start()
        .unwrap()
}

conformance!(
    fn relays_that_come_and_go_keep_the_order_of_each_key(db: &mut Db) {
        let mut conn = prepare(db);
        let log = Log::default();
        let url = db.url();
        let past = if Db::BACKEND == "postgres" {
            "clock_timestamp()"
        } else {
            "0"
        };
        let mut relays: Vec<_> = (0..3).map(|number| relay::<Connection>(&url, &log, number)).collect();
        let (until, mut round, mut emitted) = (Instant::now() + race_time(), 0_u64, 0);
        let most = EVENTS * i64::try_from(race_time().as_secs()).unwrap();
        while Instant::now() < until {
            round += 1;
            let more: Vec<Event> = (emitted..most.min(emitted + 20))
                .map(|n| match n % KEYS {
                    0 => Event::new("t", &n).max_attempts(1000),
                    key => Event::new("t", &n).key(key.to_string()).max_attempts(1000),
                })
                .collect();
            emitted += i64::try_from(outbox::emit_all(&mut conn, &Schema::default(), &more).unwrap().len()).unwrap();
            if round % 5 == 0 {
                let victim = usize::try_from(round / 5 % 3).unwrap();
                drop(relays.remove(victim));
                relays.insert(victim, relay(&url, &log, round));
            }
            if round % 3 == 0 {
                // Some are taken over while their old relay still delivers them.
                db.sql(&format!(
                    "UPDATE leasehold.outbox_events SET lease_until = {past} WHERE state = 'running' AND id % 4 = 0"
                ));
            }
        }
        // What a dropped worker was delivering is left to its lease, which is long.
        eventually(SOON, "all are delivered", || {
            db.sql(&format!(
                "UPDATE leasehold.outbox_events SET lease_until = {past} WHERE state = 'running' AND id % 2 = 0"
            ));
            db.integer("SELECT count(*) FROM leasehold.outbox_events") == 0 || {
                db.sql(&format!(
                    "UPDATE leasehold.outbox_events SET lease_until = {past} WHERE state = 'running' AND id % 2 = 1"
                ));
                false
            }
        });
        drop(relays);

        let log = log.lock().unwrap();
        let mut taken = BTreeMap::<i64, BTreeSet<i64>>::new();
        for (n, ok) in log.iter() {
            let of_key = taken.entry(n % KEYS).or_default();
            let before = n - KEYS;
            assert!(
                n % KEYS == 0 || before < 0 || of_key.contains(&before),
                "{n} came before {before} was taken"
            );
            if *ok {
                of_key.insert(*n);
            }
        }
        let all: usize = taken.values().map(BTreeSet::len).sum();
        assert_eq!(i64::try_from(all), Ok(emitted));
        assert!(emitted > 50, "{emitted}");
    }
);
