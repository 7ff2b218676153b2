//! A mutex that is given in turn.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::health::{Doing, during};

/// As `Locked`, and whoever asks waits for those only that asked before: a thread that takes it again and again (a relay
/// with short deliveries) must not keep the others waiting.
pub(crate) struct InTurn<T> {
    /// The next ticket, and the one whose turn it is.
    tickets: Mutex<(u64, u64)>,
    turned: Condvar,
    value: Mutex<T>,
}

impl<T> InTurn<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            tickets: Mutex::default(),
            turned: Condvar::new(),
            value: Mutex::new(value),
        }
    }

    pub(super) fn lock(&self) -> Turn<'_, T> {
        during(Doing::Waiting, || self.wait())
    }

    fn wait(&self) -> Turn<'_, T> {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = tickets.0;
        tickets.0 += 1;
        let ours = self.turned.wait_while(tickets, |tickets| tickets.1 != mine);
        drop(ours.unwrap_or_else(PoisonError::into_inner));
        Turn {
            value: self.value.lock().unwrap_or_else(PoisonError::into_inner),
            of: self,
        }
    }
}

/// The value, until it is dropped.
pub(super) struct Turn<'a, T> {
    value: MutexGuard<'a, T>,
    of: &'a InTurn<T>,
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        // The next one waits for the value itself a moment longer.
        self.of.tickets.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        self.of.turned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::InTurn;

    #[test]
    fn whoever_asked_first_has_it_first() {
        let shared = InTurn::new(Vec::new());
        let (waits, waiting) = mpsc::channel();
        thread::scope(|scope| {
            let mut held = shared.lock();
            for n in 1..=5 {
                let (shared, waits) = (&shared, waits.clone());
                scope.spawn(move || {
                    let _ = waits.send(());
                    shared.lock().push(n);
                });
                let _ = waiting.recv();
                while shared.tickets.lock().is_ok_and(|tickets| tickets.0 < 1 + n) {
                    thread::yield_now();
                }
            }
            held.push(0);
            drop(held);
            shared.lock().push(6);
        });
        assert_eq!(*shared.lock(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
