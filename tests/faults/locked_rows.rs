use std::time::{Duration, Instant};

use diesel::PgConnection;
use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_tests::jobs::{App, SOON, Step, app, prepare};
use leasehold_tests::proxy::Proxy;
use leasehold_tests::{TestDb, eventually, postgres};
use serde::{Deserialize, Serialize};

const HEARTBEAT: &str = "renewed AS (";
/// A heartbeat comes each two seconds.
const LEASE: Duration = Duration::from_secs(6);

#[test]
fn a_row_locked_by_its_own_commit_is_neither_lost_nor_waited_for() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    let steps: Vec<Step> = (1..=2).map(Step::waiting).collect();
    let options = EnqueueOptions::new().lease(LEASE);
    Step::enqueue_all(&steps, &mut conn, &options).unwrap();
    let proxy = Proxy::start(&db.url());
    proxy.count(HEARTBEAT);
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(proxy.url(), app).threads(2);
    let running = worker.register::<Step>().start().unwrap();
    let mut handlers = [remote.begun(), remote.begun()];
    handlers.sort_by_key(|handler| handler.n);
    let [locked, free] = handlers;
    // As its own commit does, for longer than a heartbeat's interval.
    db.sql(&format!(
        "BEGIN; SELECT id FROM leasehold.jobs WHERE id = {} FOR NO KEY UPDATE",
        locked.id
    ));
    let since = Instant::now();
    let ends = "SELECT (extract(epoch FROM lease_until) * 1000)::bigint FROM leasehold.jobs WHERE id = ";
    let (locked_end, free_end) = (
        db.integer(&format!("{ends}{}", locked.id)),
        db.integer(&format!("{ends}{}", free.id)),
    );
    eventually(SOON, "its neighbour is renewed", || {
        db.integer(&format!("{ends}{}", free.id)) > free_end
    });
    eventually(SOON, "two intervals have passed", || {
        since.elapsed() > Duration::from_secs(4)
    });
    assert!(!locked.watch.is_lost() && !free.watch.is_lost());
    assert_eq!(db.integer(&format!("{ends}{}", locked.id)), locked_end);
    // It is asked for more often than others, and not without a pause.
    let beats = proxy.count(HEARTBEAT);
    let seconds = usize::try_from(since.elapsed().as_secs()).unwrap();
    assert!(beats < 10 * seconds, "{beats} heartbeats in {seconds} s");
    db.sql("COMMIT");
    eventually(SOON, "it is renewed again", || {
        db.integer(&format!("{ends}{}", locked.id)) > locked_end
    });
    locked.go();
    free.go();
    eventually(SOON, "both are completed", || running.counts().completed == 2);
    assert_eq!(running.counts().lost, 0);
}

/// Does something after its commit, before it returns.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "lingers", lease = "1s")]
struct Lingers;

impl Handler<PgConnection, (crossbeam_channel::Sender<()>, crossbeam_channel::Receiver<()>)> for Lingers {
    fn run<'j>(
        self,
        lease: LeaseGuard<'j, PgConnection>,
        (committed, go): &(crossbeam_channel::Sender<()>, crossbeam_channel::Receiver<()>),
    ) -> Outcome<'j> {
        let receipt = lease.commit(|_| Ok(()))?;
        committed.send(()).unwrap();
        let _ = go.recv();
        Ok(receipt)
    }
}

#[test]
fn a_handler_that_lingers_after_its_commit_is_not_renewed_any_more() {
    let mut db = postgres::database();
    let mut conn = prepare(&mut db);
    Lingers.enqueue(&mut conn).unwrap();
    let proxy = Proxy::start(&db.url());
    proxy.count(HEARTBEAT);
    let (committed, sees_committed) = crossbeam_channel::bounded(1);
    let (go, word) = crossbeam_channel::bounded(0);
    let worker = Worker::<PgConnection, _>::new(proxy.url(), (committed, word));
    let running = worker.register::<Lingers>().start().unwrap();
    sees_committed.recv_timeout(SOON).unwrap();
    let since = Instant::now();
    eventually(SOON, "its lease would be over twice", || {
        since.elapsed() > Duration::from_secs(2)
    });
    let beats = proxy.count(HEARTBEAT);
    assert!(beats < 10, "{beats} heartbeats");
    drop(go);
    eventually(SOON, "it is counted", || running.counts().completed == 1);
    eventually(SOON, "nothing is held", || running.leases_held() == 0);
    assert_eq!(running.counts().lost, 0);
}
