//! One measurement in a process of its own, so that no system pays for another's threads, pools or memory.

mod apalis;
mod awa;
mod fang;
mod graphile_worker;
mod leasehold;

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use crate::order::{Answer, Order, Shape};
use crate::stats;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Longer than the slowest of them needs.
const DEADLINE: Duration = Duration::from_secs(600);
/// Until a worker that was just started waits for jobs.
const START_UP: Duration = Duration::from_secs(2);
/// Until a worker that has begun a job is idle again.
const REST: Duration = Duration::from_millis(20);
/// The first jobs of an idle worker pay for connections and prepared statements.
const WARM_UP: usize = 10;

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static BEGINS: OnceLock<Mutex<mpsc::Sender<Instant>>> = OnceLock::new();

/// Called by each handler, first of all.
fn begun() {
    BEGUN.fetch_add(1, Ordering::Relaxed);
    if let Some(begins) = BEGINS.get() {
        let _ = begins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(Instant::now());
    }
}

/// A queue under measurement. Nothing is stopped in order: the process ends.
trait System: Sized {
    /// Makes the tables, and connects whoever enqueues.
    fn prepare(order: &Order) -> Outcome<Self>;
    /// Enqueues all jobs of the order, `chunk` of them a call, on one connection.
    fn enqueue_bulk(&self, order: &Order) -> Outcome<()>;
    /// Enqueues all jobs of the order, each by a call and a commit of its own, on `connections` connections.
    fn enqueue_singly(&self, order: &Order) -> Outcome<()>;
    fn enqueue_one(&self, order: &Order) -> Outcome<()>;
    /// Starts a worker; one that is unbatched if the shape says so.
    fn start(&self, order: &Order) -> Outcome<()>;
}

pub(crate) fn run(order: &Order) -> Outcome<Answer> {
    match order.system.as_str() {
        "leasehold" => measure::<leasehold::Leasehold>(order),
        "fang" => measure::<fang::Fang>(order),
        "graphile_worker" => measure::<graphile_worker::GraphileWorker>(order),
        "apalis-postgres" => measure::<apalis::Apalis>(order),
        "awa" => measure::<awa::Awa>(order),
        other => Err(format!("no system is called {other}").into()),
    }
}

fn measure<S: System>(order: &Order) -> Outcome<Answer> {
    let system = S::prepare(order)?;
    let mut answer = match order.shape {
        Shape::Prepare => Answer::default(),
        Shape::Work | Shape::Unbatched(_) => work(&system, order)?,
        Shape::Single => single(&system, order)?,
        Shape::Pickup => pickup(&system, order)?,
    };
    answer.begun = BEGUN.load(Ordering::Relaxed);
    // Its runtime must not go before its workers do.
    std::mem::forget(system);
    Ok(answer)
}

fn work(system: &impl System, order: &Order) -> Outcome<Answer> {
    let started = Instant::now();
    system.enqueue_bulk(order)?;
    let bulk = stats::rate(order.jobs, started.elapsed());
    let mut watch = PgConnection::establish(&order.url)?;
    // What autovacuum does within a minute: no plan shall depend on whether it came by.
    watch.batch_execute("ANALYZE")?;
    let started = Instant::now();
    system.start(order)?;
    let ended = all_completed(order, &mut watch, started)?;
    Ok(Answer {
        rate: Some(stats::rate(order.jobs, ended.duration_since(started))),
        bulk: Some(bulk),
        ..Answer::default()
    })
}

/// When the last job was completed, as far as the tables tell: the moment at which the look was sent that found none left.
fn all_completed(order: &Order, watch: &mut PgConnection, started: Instant) -> Outcome<Instant> {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    loop {
        let looked = Instant::now();
        if BEGUN.load(Ordering::Relaxed) >= order.jobs {
            let left: Count = diesel::sql_query(&order.left).get_result(watch)?;
            if left.count == 0 {
                return Ok(looked);
            }
        }
        if started.elapsed() > DEADLINE {
            let begun = BEGUN.load(Ordering::Relaxed);
            return Err(format!("{begun} of {} jobs began within {DEADLINE:?}", order.jobs).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn single(system: &impl System, order: &Order) -> Outcome<Answer> {
    let started = Instant::now();
    system.enqueue_singly(order)?;
    Ok(Answer {
        rate: Some(stats::rate(order.jobs, started.elapsed())),
        ..Answer::default()
    })
}

fn pickup(system: &impl System, order: &Order) -> Outcome<Answer> {
    let (sender, begins) = mpsc::channel();
    BEGINS
        .set(Mutex::new(sender))
        .map_err(|_| "one measurement a process")?;
    system.start(order)?;
    std::thread::sleep(START_UP);
    let mut waits = Vec::new();
    for sample in 0..order.jobs + WARM_UP {
        let called = Instant::now();
        system.enqueue_one(order)?;
        let began = begins.recv_timeout(Duration::from_secs(60))?;
        if sample >= WARM_UP {
            waits.push(began.duration_since(called).as_secs_f64() * 1000.0);
        }
        std::thread::sleep(REST);
    }
    Ok(Answer {
        p50: stats::quantile(&mut waits, 0.5),
        p99: stats::quantile(&mut waits, 0.99),
        ..Answer::default()
    })
}

/// Splits the jobs of an order over its connections.
fn shares(order: &Order) -> Vec<usize> {
    (0..order.connections)
        .map(|place| (order.jobs + place) / order.connections)
        .collect()
}

/// The sizes of the calls of a bulk enqueue.
fn chunks(order: &Order) -> impl Iterator<Item = usize> {
    (0..order.jobs)
        .step_by(order.chunk)
        .map(|first| order.chunk.min(order.jobs - first))
}

/// The runtime of the systems that are async, as `#[tokio::main]` makes it.
fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Runs `each` once for every share, at the same time, and waits for all.
fn at_once<F>(runtime: &tokio::runtime::Runtime, order: &Order, each: impl Fn(usize) -> F) -> Outcome<()>
where
    F: Future<Output = Outcome<()>> + Send + 'static,
{
    let tasks: Vec<_> = shares(order)
        .into_iter()
        .map(|share| runtime.spawn(each(share)))
        .collect();
    for task in tasks {
        runtime.block_on(task)??;
    }
    Ok(())
}
