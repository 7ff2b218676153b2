//! The same work by bare statements: claims of fifty, each completed in one statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leasehold::Job;
use leasehold_benches::reference::Reference;
use leasehold_benches::samples::Samples;
use leasehold_benches::work::Answer;

use super::jobs::Noop;
use super::load::Team;

const BATCH: usize = 50;

#[derive(Default)]
struct Seen {
    claims: Samples,
    finishes: Samples,
}

/// A few clients.
pub(crate) struct Bare {
    done: Arc<AtomicU64>,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Answer>>,
}

impl Bare {
    pub(crate) fn start(url: &str, clients: usize) -> Answer<Self> {
        let mut bare = Self {
            done: Arc::default(),
            seen: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..clients {
            let mut client = Reference::connect(url, Noop::KIND)?;
            let (done, seen, stop) = (Arc::clone(&bare.done), Arc::clone(&bare.seen), Arc::clone(&bare.stop));
            bare.threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    round(&mut client, &done, &seen)?;
                }
                Ok(())
            }));
        }
        Ok(bare)
    }
}

fn round(client: &mut Reference, done: &AtomicU64, seen: &Mutex<Seen>) -> Answer {
    let began = Instant::now();
    let claimed = client.claim(BATCH)?;
    let claim = began.elapsed();
    if claimed.ids.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
        return Ok(());
    }
    let began = Instant::now();
    let finished = client.finish(&claimed)?;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.claims.add(claim);
    seen.finishes.add(began.elapsed());
    done.fetch_add(u64::try_from(finished)?, Ordering::Relaxed);
    Ok(())
}

impl Team for Bare {
    fn done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    fn statements(&mut self) -> (Samples, Samples) {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        (seen.claims, seen.finishes)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if let Ok(Err(error)) = thread.join() {
                log::error!("a client of the reference has ended: {error}");
            }
        }
    }
}
