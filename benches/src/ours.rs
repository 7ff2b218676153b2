//! The library at work, in this process or in several.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Hooks, JobInfo, Worker};
use serde::{Deserialize, Serialize};

use crate::jobs::Kind;
use crate::{Answer, Bench};

/// A process that has this in its environment is a worker of a bench: what it is to do, as JSON.
const WORK_VARIABLE: &str = "LEASEHOLD_BENCH_WORK";

/// How jobs are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Batch {
    /// As the library does it.
    Adaptive,
    /// So many ahead of the threads.
    Fixed(usize),
    /// Each by itself.
    Unbatched,
}

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    /// With these jobs.
    pub kind: Kind,
    /// In each process.
    pub threads: usize,
    /// How they are claimed.
    pub batch: Batch,
}

/// When the first job was claimed and the last one completed, in microseconds since 1970, and how many were.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Span {
    first: u64,
    last: u64,
    /// How many were completed.
    pub jobs: u64,
}

impl Span {
    /// From the first claim to the last completion.
    #[must_use]
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.last.saturating_sub(self.first))
    }

    fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            jobs: self.jobs + other.jobs,
        }
    }
}

struct Clock {
    first: AtomicU64,
    last: AtomicU64,
}

/// Looks at the clock when jobs are claimed and completed.
struct Watch(Arc<Clock>);

impl Hooks for Watch {
    fn claimed(&self, _: &JobInfo<'_>) {
        if self.0.first.load(Ordering::Relaxed) == u64::MAX {
            self.0.first.fetch_min(now(), Ordering::Relaxed);
        }
    }

    fn completed(&self, _: &JobInfo<'_>) {
        self.0.last.fetch_max(now(), Ordering::Relaxed);
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}

/// Works until the queue is empty, in this process.
///
/// # Errors
///
/// When the worker does not start, or a job was not completed.
pub fn work<C: Bench>(url: &str, work: &Work) -> Answer<Span> {
    let clock = Arc::new(Clock {
        first: AtomicU64::new(u64::MAX),
        last: AtomicU64::new(0),
    });
    let worker = Worker::<C, ()>::new(url, ())
        .threads(work.threads)
        .hooks(Watch(Arc::clone(&clock)));
    let worker = match work.batch {
        Batch::Adaptive => worker,
        Batch::Fixed(jobs) => worker.fixed_batch(jobs),
        Batch::Unbatched => worker.unbatched(),
    };
    let summary = C::register(worker, work.kind).run_until_empty()?;
    if !summary.is_success() || summary.counts.completed != summary.counts.ended() {
        return Err(format!("{summary:?}").into());
    }
    Ok(Span {
        first: clock.first.load(Ordering::Relaxed),
        last: clock.last.load(Ordering::Relaxed),
        jobs: summary.counts.completed,
    })
}

/// Works until the queue is empty, in so many processes; in this one, if it is one.
///
/// # Errors
///
/// As [`work`].
pub fn work_in<C: Bench>(processes: usize, url: &str, what: &Work) -> Answer<Span> {
    if processes == 1 {
        return work::<C>(url, what);
    }
    let mut children = (0..processes)
        .map(|_| start::<C>(url, what))
        .collect::<Answer<Vec<_>>>()?;
    for child in &mut children {
        let mut input = child.stdin.take().ok_or("a worker process has no input")?;
        input.write_all(b"go\n")?;
    }
    let mut all: Option<Span> = None;
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("a worker process ended with {}", output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let span: Span = serde_json::from_str(&text)?;
        all = Some(all.map_or(span, |all| all.and(span)));
    }
    all.ok_or_else(|| "no process was asked for".into())
}

fn start<C: Bench>(url: &str, work: &Work) -> Answer<Child> {
    let order = serde_json::to_string(&(C::NAME, url, work))?;
    let mut child = Command::new(env::current_exe()?)
        .env(WORK_VARIABLE, order)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // It says a byte when it is there, so that all begin at the same time.
    let mut there = [0];
    child
        .stdout
        .as_mut()
        .ok_or("a worker process has no output")?
        .read_exact(&mut there)?;
    Ok(child)
}

/// Whether this process is a worker of another one; then its work is done. Called first by every bench.
///
/// # Errors
///
/// As [`work`].
pub fn is_worker() -> Answer<bool> {
    let Ok(order) = env::var(WORK_VARIABLE) else {
        return Ok(false);
    };
    let (backend, url, what): (String, String, Work) = serde_json::from_str(&order)?;
    let mut output = std::io::stdout();
    output.write_all(b" ")?;
    output.flush()?;
    BufReader::new(std::io::stdin()).read_line(&mut String::new())?;
    let span = match backend.as_str() {
        #[cfg(feature = "postgres")]
        "postgres" => work::<diesel::PgConnection>(&url, &what)?,
        #[cfg(feature = "sqlite")]
        "sqlite" => work::<diesel::SqliteConnection>(&url, &what)?,
        other => return Err(format!("built without {other}: {url}, {what:?}").into()),
    };
    serde_json::to_writer(&mut output, &span)?;
    output.flush()?;
    Ok(true)
}
