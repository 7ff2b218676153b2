//! The listener on PostgreSQL: it hears, it sleeps, it comes back, it stops.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::io::PipeWriter;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use diesel::PgConnection;
use diesel::connection::{Connection as _, SimpleConnection as _};
use leasehold::__private::{Idle, Wakes, listen};
use leasehold::manage::{self, Cancel};
use leasehold::migrate::Migrations;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Schema, Worker, migrate};
use leasehold_tests::postgres::{Cluster, database, find};
use leasehold_tests::{TestDb, capture_log, eventually};
use serde::{Deserialize, Serialize};

mod idle;
use idle::marks;

/// How long anything may take that is expected to come.
const SOON: Duration = Duration::from_secs(20);

const HOUR: Duration = Duration::from_secs(3600);

struct Listening {
    thread: JoinHandle<()>,
    stop: PipeWriter,
    woken: Receiver<()>,
    wake: Sender<()>,
    idle: Arc<Idle>,
}

fn start(conninfo: &str, schema: &str) -> Listening {
    // Every wake counts.
    start_with(conninfo, schema, Idle::default(), bounded(100_000))
}

fn start_with(conninfo: &str, schema: &str, idle: Idle, (wake, woken): (Sender<()>, Receiver<()>)) -> Listening {
    let (stopped, stop) = std::io::pipe().unwrap();
    let (poked, poke) = std::io::pipe().unwrap();
    let idle = Arc::new(idle);
    idle.attach(poke);
    let wakes = Wakes {
        enqueued: wake.clone(),
        cancelled: bounded(1).0,
        idle: Arc::clone(&idle),
        idle_relays: Arc::default(),
    };
    let (conninfo, named) = (conninfo.to_owned(), Schema::named(schema).unwrap());
    // The kernel keeps 15 bytes of a thread's name; a schema's name is the test's own.
    let thread = std::thread::Builder::new().name(schema.to_owned());
    let thread = thread
        .spawn(move || listen(&conninfo, &named, &wakes, &stopped, &poked))
        .unwrap();
    Listening {
        thread,
        stop,
        woken,
        wake,
        idle,
    }
}

impl Listening {
    #[track_caller]
    fn is_woken(&self) {
        self.woken.recv_timeout(SOON).expect("the listener wakes the claimer");
    }

    /// Ends the listener by closing the pipe, and says how long that took.
    fn ends(self) -> Duration {
        let begun = Instant::now();
        drop(self.stop);
        eventually(SOON, "the listener has ended", || self.thread.is_finished());
        self.thread.join().unwrap();
        begun.elapsed()
    }
}

#[test]
fn an_enqueue_wakes_at_once_and_so_does_the_begin_of_listening() {
    let mut db = database();
    // A keyword, which a channel may be called only in quotes.
    let schema = Schema::named("order").unwrap();
    Migrations::in_schema(&schema).up(&mut db.connect()).unwrap();
    let listening = start(&db.url(), "order");
    listening.is_woken();
    // Nobody is told unless somebody rests; he is woken once that can be seen.
    listening.idle.enter(HOUR);
    listening.is_woken();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        db.sql("SELECT \"order\".enqueue('k', '1')");
        let sent = Instant::now();
        listening.is_woken();
        longest = longest.max(sent.elapsed());
    }
    // Far above what it takes, far below what looking again and again would.
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    assert!(listening.ends() < Duration::from_secs(5));
}

#[test]
fn a_worker_that_would_not_look_for_an_hour_begins_at_once_what_plain_sql_enqueued() {
    let mut db = database();
    migrate(&mut db.connect()).unwrap();
    let (begun, begins) = bounded(10);
    let worker = Worker::<PgConnection, _>::new(db.url(), begun)
        .register::<Tell>()
        .poll_interval(HOUR);
    let running = worker.start().unwrap();
    eventually(SOON, "the worker is known to be idle", || marks(&mut db) == 1);
    for told in 0..5 {
        db.sql(&format!("SELECT leasehold.enqueue('tell', '{told}')"));
        assert_eq!(begins.recv_timeout(SOON), Ok(told));
    }
    assert_eq!(running.shutdown(SOON).abandoned, 0);
}

#[test]
fn no_notification_ends_a_worker() {
    let mut db = database();
    // Its encoding checks nothing, so that a notification may be any bytes.
    db.sql("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    let name = db.text("SELECT current_database()").unwrap();
    let url = db.url().replace(&name, "ascii");
    {
        let mut conn = PgConnection::establish(&url).unwrap();
        migrate(&mut conn).unwrap();
        let (begun, begins) = bounded(10);
        let worker = Worker::<PgConnection, _>::new(&url, begun).register::<Tell>();
        let running = worker.poll_interval(HOUR).start().unwrap();
        for (told, payload) in ["''", r"E'\xff\xfe'", r#"'{"id": 1e999, '"#, "repeat('x', 7999)"]
            .into_iter()
            .enumerate()
        {
            for channel in ["leasehold", "leasehold_cancel", "nobody"] {
                conn.batch_execute(&format!("SELECT pg_notify('{channel}', {payload})"))
                    .unwrap();
            }
            conn.batch_execute(&format!("SELECT leasehold.enqueue('tell', '{told}')"))
                .unwrap();
            assert_eq!(
                begins.recv_timeout(SOON).map(|told| told as usize),
                Ok(told),
                "{payload}"
            );
        }
        assert_eq!(running.shutdown(SOON).abandoned, 0);
    }
    db.sql("DROP DATABASE ascii WITH (FORCE)");
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "tell")]
struct Tell(u32);

impl Handler<PgConnection, Sender<u32>> for Tell {
    fn run<'j>(self, lease: LeaseGuard<'j, PgConnection>, begun: &Sender<u32>) -> Outcome<'j> {
        begun.send(self.0)?;
        lease.finish()
    }
}

#[test]
fn whatever_a_notification_says_it_wakes_and_other_channels_do_not() {
    let mut db = database();
    let listening = start(&db.url(), "mine");
    listening.is_woken();
    db.sql("NOTIFY other, 'default'; NOTIFY \"MINE\"; NOTIFY leasehold");
    for payload in ["", "\u{202e}\u{7}'; DROP TABLE jobs --", &"x".repeat(7_999)] {
        db.sql(&format!("SELECT pg_notify('mine', '{}')", payload.replace('\'', "''")));
        listening.is_woken();
    }
    let woken = listening.woken.clone();
    listening.ends();
    assert!(woken.is_empty());
}

#[test]
fn a_flood_is_heard_and_does_not_end_it() {
    let mut db = database();
    let listening = start(&db.url(), "flood");
    listening.is_woken();
    for _ in 0..3 {
        db.sql("SELECT pg_notify('flood', n::text) FROM generate_series(1, 20000) AS n");
        listening.is_woken();
    }
    let woken = listening.woken.clone();
    listening.ends();
    assert!(woken.len() < 20_000, "one wake for what came together");
}

#[test]
fn a_terminated_backend_is_replaced_and_said_once() {
    let log = capture_log();
    let mut db = database();
    let listening = start(&db.url(), "terminated");
    listening.is_woken();
    for round in 1..=3 {
        assert_eq!(db.terminate_connections(), 1);
        // What came while nobody listened must be looked for.
        listening.is_woken();
        db.sql("NOTIFY terminated");
        listening.is_woken();
        let lines = log.with("schema=terminated");
        let (away, back) = (log.with("away"), log.with("back after"));
        let ours = |records: &[leasehold_tests::Record]| records.iter().filter(|record| lines.contains(record)).count();
        assert_eq!((ours(&away), ours(&back)), (round, round), "{lines:?}");
    }
    listening.ends();
}

#[test]
fn a_server_that_is_down_is_waited_for_with_one_line_and_without_secrets() {
    let log = capture_log();
    let mut cluster = Cluster::start(&find(None).unwrap(), &[]);
    cluster.crash();
    let url = cluster.url().replacen("postgres@", "postgres:s3cr3t@", 1);
    let listening = start(&url, "down");
    eventually(SOON, "the listener says that the database is away", || {
        !log.with("schema=down").is_empty()
    });
    cluster.start_again();
    listening.is_woken();
    let lines = log.with("schema=down");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(log.with("s3cr3t").is_empty());
    listening.ends();
}

#[test]
fn a_listener_ends_at_once_while_the_server_is_away_and_never_shows_the_connection_string() {
    let log = capture_log();
    let unusable = [
        "postgres://a:hush@/b?host=/nowhere",
        "postgres://a:hush@/b?hush=1",
        "a:hush@b",
        "\0hush",
    ];
    for (before, conninfo) in unusable.into_iter().enumerate() {
        let listening = start(conninfo, "unreachable");
        eventually(SOON, "the listener says that it cannot listen", || {
            log.with("schema=unreachable").len() > before
        });
        assert!(listening.ends() < Duration::from_secs(5));
    }
    assert!(log.with("hush").is_empty(), "{:?}", log.with("hush"));
    assert_eq!(log.with("schema=unreachable").len(), 4);
}

/// How often the kernel ran a thread of this process, by the thread's name.
#[cfg(target_os = "linux")]
fn times_run(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let task = tasks
        .map(|task| task.unwrap().path())
        .find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
    let status = std::fs::read_to_string(task.unwrap().join("status")).unwrap();
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines
        .map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap())
        .sum()
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_listener_sleeps() {
    let mut db = database();
    let listening = start(&db.url(), "idle");
    listening.is_woken();
    db.sql("NOTIFY idle");
    listening.is_woken();
    let mut before = times_run("idle");
    eventually(SOON, "the listener has gone to sleep", || {
        let now = times_run("idle");
        std::mem::replace(&mut before, now) == now
    });
    // Nothing to wait for: what must not happen needs a while in which it could.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(times_run("idle"), before);
    listening.ends();
}

#[test]
fn a_cancel_of_a_running_job_is_told_to_all_workers() {
    let db = database();
    let mut conn = db.connect();
    migrate(&mut conn).unwrap();
    let (wake, _woken) = bounded(100);
    let (cancel, cancelled) = bounded(100);
    let wakes = Wakes {
        enqueued: wake,
        cancelled: cancel,
        idle: Arc::default(),
        idle_relays: Arc::default(),
    };
    let (stopped, stop) = std::io::pipe().unwrap();
    let (poked, _poke) = std::io::pipe().unwrap();
    let url = db.url();
    let thread = std::thread::spawn(move || listen(&url, &Schema::default(), &wakes, &stopped, &poked));
    cancelled.recv_timeout(SOON).expect("at the begin of listening");
    leasehold_tests::jobs::Note { n: 1 }.enqueue(&mut conn).unwrap();
    let (row, _) = leasehold_tests::jobs::claim_and_die::<leasehold_tests::jobs::Note, _>(&mut conn, true);
    for how in [Cancel::Soft, Cancel::Hard] {
        assert!(manage::cancel(&mut conn, &Schema::default(), row.id, how, "ops", "enough").unwrap());
        cancelled.recv_timeout(SOON).expect("it is told");
    }
    drop(stop);
    thread.join().unwrap();
}
