//! The same heartbeats by bare statements.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::__private::Fence;

use super::CHUNK;
use super::jobs::{Writer, plain};
use super::keep::Beside;
use crate::Answer;
use crate::raw::shapes::Claimer;
use crate::raw::{Client, Purpose};
use crate::samples::Samples;

/// Between two heartbeats.
const PAUSE: Duration = Duration::from_millis(300);

/// Holds so many leases, and renews all of them again and again; how long that took each time, and each chunk of it.
pub(super) fn run<C: Writer>(url: &str, leases: usize, time: Duration) -> Answer<(Samples, Samples)> {
    let mut client = C::Raw::open(url, Purpose::Control)?;
    let like = plain()?;
    client.insert(&vec![like.clone(); leases])?;
    let mut claimer = Claimer::new(&like, CHUNK);
    let mut held: Vec<Fence> = Vec::new();
    while held.len() < leases {
        held.extend(claimer.claim(&mut client)?);
    }
    // As the library does it.
    held.sort_unstable();
    // The library's worker, whose jobs complete as beside its own heartbeats.
    let _beside = Beside::<C>::start(url)?;
    let (mut times, mut chunks, began) = (Samples::default(), Samples::default(), Instant::now());
    while times.is_empty() || began.elapsed() < time {
        thread::sleep(PAUSE);
        let beat = Instant::now();
        for chunk in held.chunks(CHUNK) {
            let one = Instant::now();
            let renewed = client.heartbeat(chunk)?;
            chunks.add(one.elapsed());
            if renewed != chunk.len() {
                return Err(format!("{renewed} of {} leases were renewed", chunk.len()).into());
            }
        }
        times.add(beat.elapsed());
    }
    client.finish(&held)?;
    Ok((times, chunks))
}
