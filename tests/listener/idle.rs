//! Nobody is told while nobody is idle, and who becomes idle misses nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use diesel::connection::{Connection as _, SimpleConnection as _};
use diesel::prelude::*;
use leasehold::__private::{EnqueueStatements as _, Idle, NewJob, RunAt};
use leasehold::{EnqueueOptions, Handler, Job, LeaseGuard, Outcome, Schema, Worker, migrate};
use leasehold_tests::postgres::{Database, database};
use leasehold_tests::{TestDb, WorkerProcess, eventually, race_time};
use serde::{Deserialize, Serialize};

use super::{HOUR, Listening, SOON, start_with};

/// How many processes are known to be idle.
pub(super) fn marks(db: &mut Database) -> i64 {
    db.integer(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1231318117 AND mode = 'ShareLock'
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
}

/// What was told on the channel since the last call.
fn told(conn: &mut PgConnection, channel: &str) -> usize {
    // Behind it in the one order in which the server delivers.
    conn.batch_execute(&format!("SELECT pg_notify('{channel}', 'last')"))
        .unwrap();
    let mut before = 0;
    eventually(SOON, "one's own notification comes", || {
        conn.notifications_iter().any(|notification| {
            let last = notification.unwrap().payload == "last";
            before += usize::from(!last);
            last
        })
    });
    before
}

fn hearer(db: &Database, channel: &str) -> PgConnection {
    let mut conn = db.connect();
    conn.batch_execute(&format!("LISTEN {channel}")).unwrap();
    conn
}

fn enqueue(conn: &mut PgConnection, n: i64) {
    conn.batch_execute(&format!("SELECT leasehold.enqueue('hold', '{n}')"))
        .unwrap();
}

/// Says that it has begun, and ends when it is told to.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "hold")]
struct Hold(i64);

struct Holds {
    begun: Sender<i64>,
    end: Receiver<()>,
}

impl Handler<PgConnection, Holds> for Hold {
    fn run<'j>(self, lease: LeaseGuard<'j, PgConnection>, holds: &Holds) -> Outcome<'j> {
        holds.begun.send(self.0)?;
        holds.end.recv()?;
        lease.finish()
    }
}

/// Idle whenever its thread is not: it claims nothing ahead.
fn holder(db: &Database) -> (Worker<PgConnection, Holds>, Receiver<i64>, Sender<()>) {
    let ((begun, begins), (go, end)) = (unbounded(), unbounded());
    let worker = Worker::new(db.url(), Holds { begun, end })
        .threads(1)
        .fixed_batch(0)
        .poll_interval(HOUR);
    (worker.register::<Hold>(), begins, go)
}

#[test]
fn an_enqueue_tells_once_for_each_transaction_and_only_while_somebody_is_idle() {
    let mut db = database();
    let mut conn = db.connect();
    migrate(&mut conn).unwrap();
    let mut ear = hearer(&db, "leasehold");
    enqueue(&mut conn, 0);
    Hold(1).enqueue(&mut conn).unwrap();
    assert_eq!(told(&mut ear, "leasehold"), 0, "there is no worker");

    let (worker, begins, go) = holder(&db);
    let running = worker.start().unwrap();
    for n in 0..2 {
        assert_eq!(begins.recv_timeout(SOON), Ok(n));
        go.send(()).unwrap();
    }
    eventually(SOON, "it is known to be idle", || marks(&mut db) == 1);
    conn.transaction(|tx| {
        enqueue(tx, 2);
        Hold(3).enqueue(tx)?;
        Hold::enqueue_all(&[Hold(4), Hold(5)], tx, &EnqueueOptions::new())
    })
    .unwrap();
    assert_eq!(told(&mut ear, "leasehold"), 1);
    assert_eq!(begins.recv_timeout(SOON), Ok(2));

    eventually(SOON, "it is known to be at work", || marks(&mut db) == 0);
    enqueue(&mut conn, 6);
    Hold(7).enqueue(&mut conn).unwrap();
    assert_eq!(told(&mut ear, "leasehold"), 0, "its only thread is at work");
    for n in 3..=7 {
        go.send(()).unwrap();
        assert_eq!(begins.recv_timeout(SOON), Ok(n));
    }
    go.send(()).unwrap();
    running.shutdown(SOON);
    eventually(SOON, "nobody is idle who is not there", || marks(&mut db) == 0);
}

#[test]
fn an_idle_worker_of_one_schema_is_not_told_of_another_ones_jobs() {
    let mut db = database();
    let mut conn = db.connect();
    migrate(&mut conn).unwrap();
    let other = Schema::named("other").unwrap();
    leasehold::migrate::Migrations::in_schema(&other).up(&mut conn).unwrap();
    let (worker, _begins, _go) = holder(&db);
    let _running = worker.schema(&other).start().unwrap();
    eventually(SOON, "it is known to be idle", || marks(&mut db) == 1);
    let (mut ear, mut others) = (hearer(&db, "leasehold"), hearer(&db, "other"));
    enqueue(&mut conn, 0);
    assert_eq!(told(&mut ear, "leasehold"), 0);
    conn.batch_execute("SELECT other.enqueue('nobodys', '0')").unwrap();
    assert_eq!(told(&mut others, "other"), 1);
}

#[test]
fn a_transaction_that_was_open_when_the_worker_became_idle_is_seen_when_it_commits() {
    let mut db = database();
    let (mut conn, mut long) = (db.connect(), db.connect());
    migrate(&mut conn).unwrap();
    let (worker, begins, go) = holder(&db);
    let running = worker.start().unwrap();
    enqueue(&mut conn, 0);
    assert_eq!(begins.recv_timeout(SOON), Ok(0));
    for round in 1..=3 {
        eventually(SOON, "it is known to be at work", || marks(&mut db) == 0);
        let isolation = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][round % 3];
        long.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}"))
            .unwrap();
        let mut ear = hearer(&db, "leasehold");
        enqueue(&mut long, i64::try_from(round).unwrap());
        go.send(()).unwrap();
        eventually(SOON, "it is known to be idle", || marks(&mut db) == 1);
        eventually(SOON, "nothing is held", || running.leases_held() == 0);
        assert!(begins.is_empty());
        long.batch_execute("COMMIT").unwrap();
        assert_eq!(begins.recv_timeout(SOON).map(usize::try_from), Ok(Ok(round)));
        // Last, for this tells the worker, too.
        assert_eq!(told(&mut ear, "leasehold"), 0, "it looked when nobody was idle");
    }
    go.send(()).unwrap();
    running.shutdown(SOON);
}

#[test]
fn a_killed_worker_is_not_taken_for_an_idle_one() {
    let mut db = database();
    migrate(&mut db.connect()).unwrap();
    let mut process = WorkerProcess::start(env!("CARGO_BIN_EXE_leasehold-test-worker"), "serve", &db.url());
    eventually(SOON, "it is known to be idle", || marks(&mut db) == 1);
    process.kill();
    eventually(SOON, "the server has seen its end", || marks(&mut db) == 0);
}

#[test]
fn a_role_that_may_only_insert_tells_too() {
    let mut db = database();
    let mut conn = db.connect();
    migrate(&mut conn).unwrap();
    let role = format!("producer_{}", std::process::id());
    db.sql(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA leasehold TO {role}; GRANT SELECT, INSERT ON leasehold.jobs TO {role}"
    ));
    let (worker, begins, go) = holder(&db);
    let running = worker.start().unwrap();
    eventually(SOON, "it is known to be idle", || marks(&mut db) == 1);
    conn.batch_execute(&format!("SET ROLE {role}")).unwrap();
    assert!(conn.batch_execute("SELECT * FROM leasehold.workers").is_err());
    conn.insert(&Schema::default(), &[hold(1)]).unwrap();
    assert_eq!(begins.recv_timeout(SOON), Ok(1));
    go.send(()).unwrap();
    running.shutdown(SOON);
    drop(conn);
    db.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// A row as an enqueue writes it. By the statement alone, so that nothing in this process tells the worker.
fn hold(n: i64) -> NewJob {
    NewJob {
        queue: "default".to_owned(),
        kind: "hold".into(),
        version: 1,
        payload: n.to_string(),
        priority: 0,
        run_at: RunAt::After(0),
        max_attempts: 20,
        lease_ms: 60_000,
        idempotency_key: None,
        remember_ms: 0,
        unique_key: None,
        unique: leasehold::Unique::default(),
        expires_ms: None,
        limit_key: None,
        limit_rank: 0,
        batch_id: None,
        waits: false,
        awaited: false,
    }
}

/// Takes what is there until `over`, and rests when there is nothing: a claimer whose look is a single statement.
fn take(conn: &mut PgConnection, listening: &Listening, taken: &AtomicI64, over: &AtomicBool) {
    const TAKE: &str =
        "DELETE FROM leasehold.jobs WHERE id IN (SELECT id FROM leasehold.jobs FOR UPDATE SKIP LOCKED LIMIT 3)";
    while !over.load(Ordering::Acquire) {
        let rows = diesel::sql_query(TAKE).execute(conn).unwrap();
        taken.fetch_add(i64::try_from(rows).unwrap(), Ordering::AcqRel);
        if rows == 0 {
            let time = listening.idle.enter(HOUR);
            let _ = listening.woken.recv_timeout(time);
            listening.idle.leave();
        } else if fastrand::bool() {
            thread::sleep(Duration::from_micros(fastrand::u64(..3_000)));
        }
    }
}

/// One or some jobs in one of the ways that there are; how many.
fn put(conn: &mut PgConnection) -> i64 {
    let schema = Schema::default();
    thread::sleep(Duration::from_micros(fastrand::u64(..6_000)));
    match fastrand::u32(..4) {
        0 => enqueue(conn, 0),
        1 => drop(conn.insert(&schema, &[hold(0)]).unwrap()),
        way => {
            let isolation = ["READ COMMITTED", "REPEATABLE READ"][fastrand::usize(..2)];
            conn.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}"))
                .unwrap();
            if way == 3 {
                // Its snapshot is older than whatever comes.
                conn.batch_execute("SELECT count(*) FROM leasehold.jobs").unwrap();
                thread::sleep(Duration::from_micros(fastrand::u64(..2_000)));
            }
            conn.insert(&schema, &[hold(0), hold(0)]).unwrap();
            thread::sleep(Duration::from_micros(fastrand::u64(..20_000)));
            conn.batch_execute("COMMIT").unwrap();
            return 2;
        }
    }
    1
}

/// Lets `workers` take what four others put, for `time`.
fn race(workers: u64, time: Duration) {
    let db = database();
    migrate(&mut db.connect()).unwrap();
    let (taken, over) = (&AtomicI64::new(0), &AtomicBool::new(false));
    let workers: Vec<Listening> = (0..workers)
        .map(|n| {
            start_with(
                &db.url(),
                "leasehold",
                Idle::lingering(Duration::from_millis(n)),
                bounded(1),
            )
        })
        .collect();
    let mut producers: Vec<PgConnection> = (0..4).map(|_| db.connect()).collect();
    let until = Instant::now() + time;
    let mut put_in_all = 0;
    thread::scope(|scope| {
        for listening in &workers {
            let mut conn = db.connect();
            scope.spawn(move || take(&mut conn, listening, taken, over));
        }
        while Instant::now() < until {
            // In rounds, for a later notification would make up for one that is missing.
            put_in_all += thread::scope(|round| {
                let rounds: Vec<_> = producers.iter_mut().map(|conn| round.spawn(|| put(conn))).collect();
                rounds.into_iter().map(|round| round.join().unwrap()).sum::<i64>()
            });
            let deadline = Instant::now() + SOON;
            let all_taken = || taken.load(Ordering::Acquire) == put_in_all;
            while !all_taken() && Instant::now() < deadline {
                thread::sleep(Duration::from_micros(100));
            }
            if !all_taken() {
                break;
            }
        }
        over.store(true, Ordering::Release);
        for listening in &workers {
            let _ = listening.wake.try_send(());
        }
    });
    assert_eq!(taken.load(Ordering::Acquire), put_in_all);
    for listening in workers {
        listening.ends();
    }
}

#[test]
fn a_worker_that_becomes_idle_while_others_enqueue_leaves_nothing_lying() {
    race(1, race_time());
}

#[test]
fn workers_that_become_idle_while_others_enqueue_leave_nothing_lying() {
    race(3, race_time());
}

#[test]
fn after_a_flood_it_looks_often_for_a_while_and_is_told_again_then() {
    let mut db = database();
    let mut conn = db.connect();
    migrate(&mut conn).unwrap();
    let listening = start_with(&db.url(), "leasehold", Idle::default(), bounded(1));
    let (rest, rests) = bounded(1);
    let idle = std::sync::Arc::clone(&listening.idle);
    let woken = listening.woken.clone();
    let _claimer = thread::spawn(move || {
        // Ends with the test, which receives no more.
        loop {
            let time = idle.enter(HOUR);
            let _ = woken.recv_timeout(time);
            idle.leave();
            if rest.send(time).is_err() {
                return;
            }
        }
    });
    eventually(SOON, "it is known to be idle", || {
        while rests.try_recv().is_ok() {}
        marks(&mut db) == 1
    });
    eventually(SOON, "it says no more that it is idle", || {
        conn.batch_execute("SELECT pg_notify('leasehold', n::text) FROM generate_series(1, 1000) AS n")
            .unwrap();
        while rests.try_recv().is_ok() {}
        marks(&mut db) == 0
    });
    assert!(rests.recv_timeout(SOON).unwrap() <= HOUR);
    assert!(
        rests.recv_timeout(SOON).unwrap() < Duration::from_millis(10),
        "it looks by itself"
    );
    eventually(SOON, "it is known to be idle again", || {
        while rests.try_recv().is_ok() {}
        marks(&mut db) == 1
    });
    drop(rests);
    listening.ends();
}
