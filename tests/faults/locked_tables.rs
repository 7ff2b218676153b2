use std::collections::BTreeSet;
use std::time::Duration;

use crossbeam_channel::bounded;
use diesel::connection::SimpleConnection;
use leasehold::outbox::{self, Delivery, Event};
use leasehold::{EnqueueOptions, Job, Schema};
use leasehold_tests::postgres::database;

use crate::probe::*;

/// An administrator rebuilds a table that the heartbeat has no need of.
#[test]
fn a_lock_on_the_tables_of_workers_and_keys_holds_up_no_heartbeat() {
    let mut db = database();
    let mut conn = migrated(&db);
    let lock = "BEGIN; LOCK TABLE leasehold.workers, leasehold.unique_keys IN ACCESS EXCLUSIVE MODE";
    let options = EnqueueOptions::new().lease(Duration::from_millis(1500));
    probe("").enqueue_with(&mut conn, &options).unwrap();
    conn.batch_execute(lock).unwrap();
    let (go, gone) = bounded::<()>(0);
    let worker = worker(&db, move |_, lease| {
        let _ = gone.recv();
        lease.check()?;
        lease.finish()
    });
    let running = worker.start().unwrap();
    let mut ends = BTreeSet::new();
    eventually(Duration::from_secs(4), "the lease is renewed five times", || {
        ends.extend(db.texts("SELECT lease_until::text FROM leasehold.jobs WHERE attempt = 1 AND state = 'running'"));
        ends.len() > 5
    });
    conn.batch_execute("ROLLBACK").unwrap();
    drop(go);
    wait_completed(&running, 1);
    assert_eq!(running.counts().lost, 0);
}

/// The outbox is rebuilt while many relays want it.
#[test]
fn a_lock_on_the_outbox_holds_up_no_heartbeat() {
    let mut db = database();
    let mut conn = migrated(&db);
    let options = EnqueueOptions::new().lease(Duration::from_millis(1500));
    probe("").enqueue_with(&mut conn, &options).unwrap();
    let (go, gone) = bounded::<()>(0);
    let mut worker = worker(&db, move |_, lease| {
        let _ = gone.recv();
        lease.check()?;
        lease.finish()
    });
    for topic in ["a", "b", "c", "d"] {
        worker = worker.relay(topic, |_: &Delivery<'_>| Ok(()));
    }
    let running = worker.start().unwrap();
    conn.batch_execute("BEGIN; LOCK TABLE leasehold.outbox_events IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let mut ends = BTreeSet::new();
    eventually(SOON, "the lease is renewed ten times", || {
        ends.extend(db.texts("SELECT lease_until::text FROM leasehold.jobs WHERE attempt = 1 AND state = 'running'"));
        ends.len() > 10
    });
    conn.batch_execute("ROLLBACK").unwrap();
    drop(go);
    wait_completed(&running, 1);
    assert_eq!(running.counts().lost, 0);
}

/// Longer than a relay waits for a lock, and much shorter than its lease.
#[test]
fn a_delivery_is_marked_once_the_outbox_is_unlocked() {
    let mut db = database();
    let mut conn = migrated(&db);
    outbox::emit(&mut conn, &Schema::default(), &Event::new("t", &1).key("a")).unwrap();
    let (begun, begins) = bounded(1);
    let (go, gone) = bounded::<()>(0);
    let worker = worker(&db, |_, lease| lease.finish()).relay("t", move |_: &Delivery<'_>| {
        let _ = begun.send(());
        let _ = gone.recv();
        Ok(())
    });
    let running = worker.start().unwrap();
    begins.recv_timeout(SOON).unwrap();
    conn.batch_execute("BEGIN; LOCK TABLE leasehold.outbox_events IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    drop(go);
    std::thread::sleep(Duration::from_secs(1));
    conn.batch_execute("ROLLBACK").unwrap();
    eventually(SOON, "it is marked", || {
        db.integer("SELECT count(*) FROM leasehold.outbox_events") == 0
    });
    eventually(SOON, "it is counted", || running.counts().delivered == 1);
    assert!(begins.try_recv().is_err(), "it was delivered again");
}
