//! What the threads of a worker share, in every order in which they may run: loom's primitives in place of the standard
//! library's, and a store that a test plays.
//!
//! `sync` is what the library's module of that name is here; `lease` and `worker` include the library's own sources.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(dead_code, reason = "the sources have more than is tried here")]

mod lease;
mod sync;
mod worker;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod capped;
mod registry;
mod standing;

/// Runs `check` in every order with three forced changes of thread at the most, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn in_every_order(name: &str, check: impl Fn() + Sync + Send + 'static) {
    let orders = Arc::new(AtomicU64::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    let counted = Arc::clone(&orders);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        check();
    });
    let text = format!("{name}: {} orders\n", orders.load(Ordering::Relaxed));
    let _ = std::io::stderr().write_all(text.as_bytes());
}
