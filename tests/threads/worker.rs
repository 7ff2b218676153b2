//! The library's registry of leases, and the cap of a queue.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

#[path = "../../queue/src/worker/leases.rs"]
mod leases;
pub(crate) use leases::Leases;

#[path = "../../queue/src/worker/cap.rs"]
mod cap;
pub(crate) use cap::Cap;

/// As the library's.
struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
