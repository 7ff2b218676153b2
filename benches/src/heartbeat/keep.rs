//! A process that holds many leases, and completes some of them and others meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold::selected::{Answer as Chosen, ClaimedJob, Selection, Settled};
use leasehold::{EnqueueOptions, Job, Running, Worker};

use super::jobs::{Completion, How, Kept, Notice, Quick, Writer, Writes, commit, completed, take_completions};
use crate::Answer;
use crate::clock::{cpu_time, now_ns};
use crate::statements::{self, Ran};

/// One of each sort of completion in so much time.
const PACE: Duration = Duration::from_millis(10);

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) statements: Vec<Ran>,
    pub(super) completions: Vec<Completion>,
    /// Of the whole process, enqueues included, as a share of a core.
    pub(super) cpu: f64,
}

/// Jobs that complete, two at a time, while something else goes on.
pub(super) struct Beside<C: Writer> {
    running: Option<Running<C, ()>>,
    stop: Arc<AtomicBool>,
    feeder: Option<JoinHandle<Answer>>,
}

impl<C: Writer> Beside<C> {
    pub(super) fn start(url: &str) -> Answer<Self> {
        let running = Worker::<C, ()>::new(url, ())
            .threads(4)
            .queues(["default"])
            .register::<Kept>()
            .register::<Quick>()
            .register::<Writes>()
            .hooks(Notice)
            .start()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (url, stopped) = (url.to_owned(), Arc::clone(&stop));
        Ok(Self {
            running: Some(running),
            stop,
            feeder: Some(thread::spawn(move || feed::<C>(&url, &stopped))),
        })
    }
}

impl<C: Writer> Drop for Beside<C> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(feeder) = self.feeder.take()
            && let Ok(Err(error)) = feeder.join()
        {
            log::error!("nothing was enqueued any more: {error}");
        }
        if let Some(running) = self.running.take() {
            running.shutdown(Duration::from_secs(10));
        }
    }
}

/// Holds `leases` jobs for so long.
pub(super) fn run<C: Writer>(url: &str, leases: usize, lease: Duration, time: Duration) -> Answer<Seen> {
    let beside = Beside::<C>::start(url)?;
    let running = beside.running.as_ref().ok_or("no worker runs")?;
    let mut held = hold(url, running, leases, lease)?;
    statements::take();
    take_completions();
    let (began, cpu_before) = (Instant::now(), cpu_time());
    while began.elapsed() < time && held.len() > leases / 2 {
        thread::sleep(PACE);
        complete_kept(&mut held);
    }
    thread::sleep(time.saturating_sub(began.elapsed()));
    let cpu = (cpu_time() - cpu_before).as_secs_f64() / began.elapsed().as_secs_f64();
    let seen = Seen {
        statements: statements::take(),
        completions: take_completions(),
        cpu,
    };
    // First the worker, which gives back in one statement what nobody has begun; dropped ones go one by one.
    drop(beside);
    drop(held);
    Ok(seen)
}

fn hold<C: Writer>(url: &str, running: &Running<C, ()>, leases: usize, lease: Duration) -> Answer<Vec<ClaimedJob<C>>> {
    let mut conn = C::establish(url)?;
    let kept = vec![Kept {}; leases];
    let enqueued = Kept::enqueue_all(&kept, &mut conn, &EnqueueOptions::new().lease(lease))?;
    let ids: Vec<i64> = enqueued.iter().map(leasehold::Enqueued::id).collect();
    let mut held = Vec::with_capacity(leases);
    for ids in ids.chunks(Selection::MOST) {
        for selected in running.claim_selected(Selection::ids(ids.iter().copied()))? {
            match selected.answer {
                Chosen::Claimed(job) => held.push(job),
                other => return Err(format!("{}: {other}", selected.asked).into()),
            }
        }
    }
    Ok(held)
}

/// Enqueues jobs that complete, two at a time.
fn feed<C: Writer>(url: &str, stop: &AtomicBool) -> Answer {
    let mut conn = C::establish(url)?;
    if C::ONE_WRITER {
        conn.batch_execute("PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL")?;
    }
    while !stop.load(Ordering::Relaxed) {
        Quick {}.enqueue(&mut conn)?;
        Writes {}.enqueue(&mut conn)?;
        thread::sleep(PACE);
    }
    Ok(())
}

/// Completes one of those that the heartbeat renews, by a finish or by a commit in turn.
fn complete_kept<C: Writer>(held: &mut Vec<ClaimedJob<C>>) {
    // From anywhere in the list, so that each chunk of a heartbeat has some of them.
    let place = usize::try_from(now_ns() / 1000).unwrap_or_default() % held.len();
    let job = held.swap_remove(place);
    if job.id() % 2 == 0 {
        let settled = job.work(|_: Kept, lease| commit(lease, How::CommitOfKept));
        told(&settled);
    } else {
        let began = now_ns();
        let settled = job.work(|_: Kept, lease| lease.finish());
        told(&settled);
        completed(How::FinishOfKept, began);
    }
}

fn told(settled: &Settled) {
    if *settled != Settled::Completed {
        log::warn!("a kept job is {settled:?}");
    }
}
