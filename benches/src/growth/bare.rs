//! The same work by bare statements: claims of fifty, each completed in one statement.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::jobs::plain;
use super::load::Team;
use crate::raw::shapes::Claimer;
use crate::raw::{Client, Purpose};
use crate::samples::Samples;
use crate::{Answer, Bench};

const BATCH: usize = 50;

#[derive(Default)]
struct Seen {
    claims: Samples,
    finishes: Samples,
}

/// A few clients.
pub(super) struct Bare {
    done: Arc<AtomicU64>,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Answer>>,
}

impl Bare {
    pub(super) fn start<C: Bench>(url: &str, clients: usize) -> Answer<Self> {
        let mut bare = Self {
            done: Arc::default(),
            seen: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..clients {
            let mut client = C::Raw::open(url, Purpose::Control)?;
            let (done, seen, stop) = (Arc::clone(&bare.done), Arc::clone(&bare.seen), Arc::clone(&bare.stop));
            bare.threads.push(thread::spawn(move || {
                let like = plain()?;
                let mut claimer = Claimer::new(&like, BATCH);
                while !stop.load(Ordering::Relaxed) {
                    round(&mut client, &mut claimer, &done, &seen)?;
                }
                Ok(())
            }));
        }
        Ok(bare)
    }
}

fn round<R: Client>(client: &mut R, claimer: &mut Claimer<'_>, done: &AtomicU64, seen: &Mutex<Seen>) -> Answer {
    let began = Instant::now();
    let fences = claimer.claim(client)?;
    let claim = began.elapsed();
    if fences.is_empty() {
        thread::sleep(Duration::from_millis(1));
        return Ok(());
    }
    let began = Instant::now();
    let finished = client.finish(&fences)?;
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
