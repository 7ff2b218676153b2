//! What many threads touch at once is made of these. In `tests/threads` others take their place, which go through every order
//! in which the threads may run.

pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
