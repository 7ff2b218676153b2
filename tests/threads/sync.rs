//! The primitives, by loom.

pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

/// Loom has none. A value that is set stays, so it may be leaked.
#[derive(Debug)]
pub(crate) struct OnceLock<T: 'static>(Mutex<Option<&'static T>>);

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let mut set = self.0.lock().unwrap();
        if set.is_some() {
            return Err(value);
        }
        *set = Some(Box::leak(Box::new(value)));
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<&'static T> {
        *self.0.lock().unwrap()
    }
}
