//! What the reference does with the statements.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::__private::{Fence, Place};
use uuid::Uuid;

use super::{Claim, Client, Plain, Purpose};
use crate::Answer;
use crate::jobs::BULK;

/// How many claims in a row may find nothing before the jobs count as used up: another thread may have them locked.
const PATIENCE: usize = 100;

/// Claims `batch` and finishes them, over and over, on so many connections; how long all jobs took.
///
/// # Errors
///
/// The database's, or when a job was missing.
pub fn finish<C: Client>(url: &str, like: &Plain, jobs: usize, connections: usize, batch: usize) -> Answer<Duration> {
    let done = AtomicUsize::new(0);
    together(connections, |_| {
        let mut client = C::open(url, Purpose::Control)?;
        let (done, mut claimer) = (&done, Claimer::new(like, batch));
        Ok(move || {
            let mut found_nothing = 0;
            while done.load(Ordering::Relaxed) < jobs && found_nothing < PATIENCE {
                let fences = claimer.claim(&mut client)?;
                if fences.is_empty() {
                    found_nothing += 1;
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                found_nothing = 0;
                let finished = client.finish(&fences)?;
                if finished != fences.len() {
                    return Err(format!("{finished} of {} jobs were finished", fences.len()).into());
                }
                done.fetch_add(finished, Ordering::Relaxed);
            }
            Ok(())
        })
    })
    .and_then(|took| all_done(&done, jobs, took))
}

/// Commits each job with an insert, on so many connections, while one beside claims `batch` at a time.
///
/// # Errors
///
/// The database's, or when a job was missing.
pub fn commit<C: Client>(url: &str, like: &Plain, jobs: usize, connections: usize, batch: usize) -> Answer<Duration> {
    let done = AtomicUsize::new(0);
    let (claimed, to_commit) = crossbeam_channel::bounded::<Fence>(batch);
    // Taken by the first thread, so that the channel ends with it.
    let claimed = std::sync::Mutex::new(Some(claimed));
    together(connections + 1, |place| {
        let purpose = if place == 0 {
            Purpose::Control
        } else {
            Purpose::Application
        };
        let mut client = C::open(url, purpose)?;
        let claimed = (place == 0)
            .then(|| claimed.lock().ok().and_then(|mut sender| sender.take()))
            .flatten();
        let (done, to_commit) = (&done, to_commit.clone());
        let mut claimer = Claimer::new(like, batch);
        Ok(move || {
            let Some(claimed) = claimed else {
                return commit_all(&mut client, &to_commit, done);
            };
            drop(to_commit);
            let mut taken = 0;
            while taken < jobs {
                let fences = claimer.claim(&mut client)?;
                if fences.is_empty() {
                    return Err(format!("{taken} of {jobs} jobs were there").into());
                }
                taken += fences.len();
                for fence in fences {
                    claimed.send(fence)?;
                }
            }
            Ok(())
        })
    })
    .and_then(|took| all_done(&done, jobs, took))
}

/// One connection does all of it: claims `batch`, then commits each with an insert. Where one writer keeps all others
/// waiting, more of them add nothing.
///
/// # Errors
///
/// The database's, or when a job was missing.
pub fn commit_alone<C: Client>(url: &str, like: &Plain, jobs: usize, batch: usize) -> Answer<Duration> {
    let mut client = C::open(url, Purpose::Control)?;
    let mut claimer = Claimer::new(like, batch);
    let begin = Instant::now();
    let mut done = 0;
    while done < jobs {
        let fences = claimer.claim(&mut client)?;
        if fences.is_empty() {
            return Err(format!("{done} of {jobs} jobs were there").into());
        }
        for fence in &fences {
            commit_one(&mut client, fence)?;
        }
        done += fences.len();
    }
    Ok(begin.elapsed())
}

/// Enqueues so many jobs, `bulk` in a statement, on each of so many connections.
///
/// # Errors
///
/// The database's.
pub fn enqueue<C: Client>(url: &str, like: &Plain, jobs: usize, connections: usize, bulk: bool) -> Answer<Duration> {
    together(connections, |_| {
        let mut client = C::open(url, Purpose::Application)?;
        let rows = vec![like.clone(); if bulk { BULK } else { 1 }];
        let each = jobs.div_ceil(connections);
        Ok(move || {
            let mut left = each;
            while left > 0 {
                let now = left.min(rows.len());
                client.insert(&rows[..now])?;
                left -= now;
            }
            Ok(())
        })
    })
}

/// Claims, each time from where the last claim ended.
#[derive(Debug)]
pub struct Claimer<'a> {
    like: &'a Plain,
    batch: usize,
    worker: Uuid,
    behind: Place,
}

impl<'a> Claimer<'a> {
    /// So many jobs at a time that are like this one.
    #[must_use]
    pub fn new(like: &'a Plain, batch: usize) -> Self {
        Self {
            like,
            batch,
            worker: Uuid::new_v4(),
            behind: Place::FRONT,
        }
    }

    /// From the front, if there is nothing further on.
    ///
    /// # Errors
    ///
    /// The database's.
    pub fn claim<C: Client>(&mut self, client: &mut C) -> Answer<Vec<Fence>> {
        loop {
            let claimed = client.claim(&Claim {
                like: self.like,
                limit: i64::try_from(self.batch)?,
                lease_token: Uuid::new_v4(),
                worker: self.worker,
                behind: self.behind,
            })?;
            let from = std::mem::replace(&mut self.behind, claimed.last.unwrap_or(Place::FRONT));
            if from == Place::FRONT || !claimed.fences.is_empty() {
                return Ok(claimed.fences);
            }
        }
    }
}

fn commit_all<C: Client>(client: &mut C, to_commit: &crossbeam_channel::Receiver<Fence>, done: &AtomicUsize) -> Answer {
    for fence in to_commit {
        commit_one(client, &fence)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn commit_one<C: Client>(client: &mut C, fence: &Fence) -> Answer {
    if client.commit(fence)? {
        Ok(())
    } else {
        Err("a job was not ours".into())
    }
}

fn all_done(done: &AtomicUsize, jobs: usize, took: Duration) -> Answer<Duration> {
    match done.load(Ordering::Relaxed) {
        all if all == jobs => Ok(took),
        some => Err(format!("{some} of {jobs} jobs were done").into()),
    }
}

/// Runs so many threads, each with what `prepare` gave it, and tells the time from when all are prepared until the last one
/// is done.
///
/// # Errors
///
/// The first of theirs.
pub fn together<'env, W>(threads: usize, prepare: impl Fn(usize) -> Answer<W>) -> Answer<Duration>
where
    W: FnOnce() -> Answer + Send + 'env,
{
    let works = (0..threads).map(prepare).collect::<Answer<Vec<W>>>()?;
    let ready = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let start = |work: W| {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                work()
            })
        };
        let running: Vec<_> = works.into_iter().map(start).collect();
        ready.wait();
        let begin = Instant::now();
        for thread in running {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(begin.elapsed())
    })
}
