//! What a handler tells of its job beside how it ended: a result, and how far it has come.

use std::time::Instant;

use serde::Serialize;

use super::LeaseGuard;
use crate::backend::{Backend, NewProgress};
use crate::commit::MAX_STALE_CONNECTIONS;
use crate::handler::{JobError, Outcome};
use crate::lease::Refusal;
use crate::results::StoredResult;
use crate::settle::storable;

impl<'j, C: Backend> LeaseGuard<'j, C> {
    /// As [`LeaseGuard::commit`], and what `writes` returns is stored as the job's result, in the same transaction: it is
    /// there when the completion is. [`inspect::result`](crate::inspect::result()) reads it, and so do the jobs of a
    /// [`Workflow`](crate::Workflow) that waited for this one.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::commit`], and [`ResultError`](crate::error::ResultError) behind the [`JobError`] for a result that
    /// cannot be stored: a failed attempt.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use leasehold::{Schema, Worker, inspect};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// #[job(kind = "add")]
    /// struct Add(i64, i64);
    ///
    /// impl Handler<SqliteConnection> for Add {
    ///     fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
    ///         lease.commit_result(|_tx| Ok(self.0 + self.1))
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, mut conn) = doctest_database();
    /// let id = Add(2, 3).enqueue(&mut conn)?.id();
    /// Worker::<SqliteConnection, _>::new(url, ()).register::<Add>().run_until_empty()?;
    /// assert_eq!(inspect::result(&mut conn, &Schema::default(), id)?, Some(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_result<T: Serialize>(self, writes: impl FnOnce(&mut C) -> Result<T, JobError>) -> Outcome<'j> {
        let mut writes = Some(writes);
        self.commit_within(None, 1, move |tx| match writes.take() {
            Some(writes) => Ok(Some(StoredResult::new(&writes(tx)?)?)),
            None => Err(JobError::retry("the writes of this commit have run already")),
        })
    }

    /// Completes a job that has nothing to write but its result. Unlike [`LeaseGuard::finish`] it is a transaction of its
    /// own: it is not written together with the completions of other jobs, and a refusal is told here.
    ///
    /// # Errors
    ///
    /// As [`LeaseGuard::commit_result`].
    pub fn finish_result(self, result: &impl Serialize) -> Outcome<'j> {
        let result = StoredResult::new(result)?;
        let mut result = Some(result);
        self.commit_within(None, 1, move |_| Ok(result.take()))
    }

    /// Tells how far the job has come, for [`inspect::progress`](crate::inspect::progress()). Cheap in a tight loop: it is
    /// written five times a second at the most, and when `done` has reached `total`. It takes a connection of the
    /// handlers' pool and gives it back at once.
    ///
    /// Progress is a courtesy: when it cannot be written (the database is away), that is logged and the job goes on. The
    /// text is cut at 8 KiB.
    ///
    /// # Errors
    ///
    /// The refusal, once the lease is lost. Nothing is written then.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// # #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// # #[job(kind = "convert")]
    /// # struct Convert { pages: u64 }
    /// impl Handler<SqliteConnection> for Convert {
    ///     fn run<'j>(self, mut lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
    ///         for page in 1..=self.pages {
    ///             // … convert it …
    ///             lease.progress(page, self.pages, "pages converted")?;
    ///         }
    ///         lease.finish()
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    pub fn progress(&mut self, done: u64, total: u64, text: &str) -> Result<(), JobError> {
        self.check()?;
        if !self.held.progress_is_due(done, total, Instant::now()) {
            return Ok(());
        }
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let progress = NewProgress {
            done: count(done),
            total: count(total),
            text: storable(text),
        };
        match self.store_progress(&progress) {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => {
                self.held.mark_lost(refusal.clone());
                Err(JobError::refused(refusal))
            }
            Err(error) => {
                log::warn!("progress not written {}: {error}", self.held.info());
                Ok(())
            }
        }
    }

    /// Writes it; how the row refused it, if it did.
    fn store_progress(&mut self, progress: &NewProgress) -> Result<Option<Refusal>, JobError> {
        let (schema, gate, fence) = (
            self.slot.schema().clone(),
            self.slot.write_gate().clone(),
            self.held.fence,
        );
        let mut stale = 0;
        loop {
            let conn = self.slot.connection()?;
            let stored = gate.hold(|| {
                if conn.store_progress(&schema, &fence, progress)? > 0 {
                    return Ok(None);
                }
                conn.ownership(&schema, fence.id)
                    .map(|row| Refusal::of(&fence, row.as_ref()))
            });
            self.slot.give_back(stored.is_err());
            match stored {
                // The pool's connection may have been dead before; writing twice does no harm.
                Err(_) if stale < MAX_STALE_CONNECTIONS.min(3) => stale += 1,
                stored => return Ok(stored?),
            }
        }
    }
}
