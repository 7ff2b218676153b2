//! Who works: the library or the reference, in a process of its own or in this one. Each tells which job began when.

use std::env;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use leasehold::__private::Place;
use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, Running, Worker};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::team::Begun;
use crate::clock::{cpu_time, now_ns};
use crate::raw::{Claim, Client, Plain, Purpose};
use crate::{Answer, Bench, statements};

/// A process that has this in its environment works for a bench: how, as JSON.
pub(super) const ORDER_VARIABLE: &str = "LEASEHOLD_BENCH_SERVE";

/// The longest time that the reference waits for a wake-up.
const POLL: Duration = Duration::from_secs(1);

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Who {
    Library,
    /// The library, and which statements it runs when.
    Profile,
    Raw,
}

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) backend: String,
    pub(super) who: Who,
    pub(super) url: String,
    pub(super) threads: usize,
    /// Of each handler.
    pub(super) work_us: u64,
}

/// The job whose wait is measured.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "probe")]
pub(super) struct Probe {}

/// How long a handler works.
static WORK_US: AtomicU64 = AtomicU64::new(0);
/// Whether statements are told with each job.
static PROFILE: AtomicBool = AtomicBool::new(false);
/// Who is told in this process; else it is standard output.
static HERE: Mutex<Option<Sender<Begun>>> = Mutex::new(None);

impl<C: Backend> Handler<C> for Probe {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        begun(lease.job_id(), now_ns());
        lease.finish()
    }
}

/// Tells it, and works.
fn begun(id: i64, at: u64) {
    let statements = match PROFILE.load(Ordering::Relaxed) {
        true => statements::take(),
        false => Vec::new(),
    };
    let begun = Begun { id, at, statements };
    match &*HERE.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(here) => drop(here.send(begun)),
        None => tell(&Told::Begun(begun)),
    }
    thread::sleep(Duration::from_micros(WORK_US.load(Ordering::Relaxed)));
}

/// What a process says, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    Ready,
    Begun(Begun),
    /// Nanoseconds of processor time so far.
    Cpu(u64),
}

fn tell(told: &Told) {
    let mut output = std::io::stdout().lock();
    // Whoever does not listen any more has what was wanted.
    let _ = serde_json::to_writer(&mut output, told)
        .map_err(Into::into)
        .and_then(|()| output.write_all(b"\n"))
        .and_then(|()| output.flush());
}

/// Whether this process works for a bench; then it has done so until nobody gives orders any more.
///
/// # Errors
///
/// The database's.
pub fn is_worker() -> Answer<bool> {
    let Ok(order) = env::var(ORDER_VARIABLE) else {
        return Ok(false);
    };
    let order: Order = serde_json::from_str(&order)?;
    match order.backend.as_str() {
        #[cfg(feature = "postgres")]
        "postgres" => serve::<diesel::PgConnection>(&order)?,
        #[cfg(feature = "sqlite")]
        "sqlite" => serve::<diesel::SqliteConnection>(&order)?,
        other => return Err(format!("built without {other}").into()),
    }
    Ok(true)
}

fn serve<C: Bench>(order: &Order) -> Answer {
    WORK_US.store(order.work_us, Ordering::Relaxed);
    if order.who == Who::Profile {
        PROFILE.store(true, Ordering::Relaxed);
        statements::record()?;
    }
    if order.who == Who::Raw {
        for _ in 0..order.threads {
            let mut client = C::Raw::open(&order.url, Purpose::Control)?;
            client.listen()?;
            thread::spawn(move || said(work_raw(&mut client, |client| client.wait(POLL))));
        }
        answer();
    } else {
        let running = start::<C>(&order.url, order.threads)?;
        answer();
        running.shutdown(POLL);
    }
    Ok(())
}

/// Says how much processor time was used whenever a line comes in; ends with the other end of the pipe.
fn answer() {
    tell(&Told::Ready);
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
        let used = u64::try_from(cpu_time().as_nanos()).unwrap_or(u64::MAX);
        tell(&Told::Cpu(used));
    }
}

fn start<C: Bench>(url: &str, threads: usize) -> Answer<Running<C, ()>> {
    Ok(Worker::<C, ()>::new(url, ())
        .threads(threads)
        .register::<Probe>()
        .start()?)
}

/// The library in this process.
pub(super) fn library_here<C: Bench>(url: &str, threads: usize, told: Sender<Begun>) -> Answer<Running<C, ()>> {
    *HERE.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    start(url, threads)
}

/// The reference in this process: one thread, woken by the other end of `wakes`, until that is closed.
pub(super) fn raw_here<C: Bench>(url: &str, told: Sender<Begun>, wakes: Receiver<()>) -> Answer {
    let mut client = C::Raw::open(url, Purpose::Control)?;
    *HERE.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    thread::spawn(move || {
        said(work_raw(&mut client, |_| {
            wakes.recv().map_err(|_| "nobody enqueues any more".into())
        }));
    });
    Ok(())
}

/// Claims one job, finishes it, and waits when there is none.
fn work_raw<R: Client>(client: &mut R, wait: impl Fn(&mut R) -> Answer) -> Answer {
    let (like, worker) = (plain()?, Uuid::new_v4());
    loop {
        let claimed = client.claim(&Claim {
            like: &like,
            limit: 1,
            lease_token: Uuid::new_v4(),
            worker,
            behind: Place::FRONT,
        })?;
        let Some(fence) = claimed.fences.first() else {
            wait(client)?;
            continue;
        };
        begun(fence.id, now_ns());
        client.finish(&claimed.fences)?;
    }
}

fn plain() -> Answer<Plain> {
    Ok(Plain {
        queue: Probe::QUEUE,
        kind: Probe::KIND,
        version: i32::try_from(Probe::VERSION)?,
        payload: serde_json::to_string(&Probe {})?,
        max_attempts: i32::try_from(Probe::MAX_ATTEMPTS)?,
        lease_ms: i64::try_from(Probe::LEASE.as_millis())?,
    })
}

/// A thread has nobody to give its error to.
fn said(ended: Answer) {
    if let Err(error) = ended {
        log::info!("the reference ends: {error}");
    }
}
