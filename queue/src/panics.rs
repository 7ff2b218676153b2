//! Values of other people's that may panic when they are dropped.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a value on a thread that must go on: a panic's own value, or an error's source, may panic in turn.
pub(crate) fn drop_contained<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        log::error!("a value panicked when it was dropped");
        // It may be of the same kind.
        mem::forget(panic);
    }
}
