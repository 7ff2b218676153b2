//! Edit: what a job that does not run will do, changed by hand.

use std::time::{Duration, SystemTime};

use diesel::result::Error;
use serde::Serialize;

use super::deed::Deed;
use crate::backend::{
    AsBackend, Change, CommitStatements, InspectStatements, ManageStatements, NewPayload, TypedPayload,
};
use crate::enqueue::{self, EnqueueError, EnqueueOptions};
use crate::inspect::State;
use crate::job::Job;
use crate::migrate::Migrate;
use crate::schema::Schema;

/// What changes in a job; see [`edit()`].
///
/// ```
/// use std::time::Duration;
/// use leasehold::manage::Edit;
///
/// let sooner = Edit::new().priority(5).delay(Duration::ZERO);
/// # let _ = sooner;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Edit {
    options: EnqueueOptions,
    payload: Option<NewPayload>,
    /// Its unique key before it is stored, where each queue has its own: which one it is follows from the job's queue.
    key_per_queue: Option<String>,
}

/// Why a job was not edited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is no such job; it may have been purged.
    #[error("there is no job {id}: it may have been purged")]
    Missing {
        /// The id.
        id: i64,
    },
    /// The job runs, or has ended.
    #[error("job {id} is {state}: only ready jobs are edited")]
    State {
        /// The id.
        id: i64,
        /// Its state.
        state: State,
    },
    /// Somebody changed or claimed the job since.
    #[error("job {id} has generation {current} now: read it again, and decide again")]
    Conflict {
        /// The id.
        id: i64,
        /// Its generation now.
        current: i64,
    },
    /// The new payload belongs to another kind, or gives the job another unique key.
    #[error("the payload gives job {id} another kind or unique key: cancel the job and enqueue another")]
    Identity {
        /// The id.
        id: i64,
    },
    /// The new payload or run time cannot be stored.
    #[error(transparent)]
    Value(#[from] EnqueueError),
    /// The database's error.
    #[error(transparent)]
    Database(#[from] Error),
}

impl Edit {
    /// Changes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another priority. The place among jobs that wait for the same limit stays as it is.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.options = self.options.priority(priority);
        self
    }

    /// To run so long from now; zero is as soon as it can.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.options = self.options.delay(delay);
        self
    }

    /// To run at a time.
    #[must_use]
    pub fn run_at(mut self, at: SystemTime) -> Self {
        self.options = self.options.run_at(at);
        self
    }

    /// Another payload, of the same kind and with the same unique key.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`] for a payload that cannot be stored.
    pub fn payload<J: Job>(mut self, job: &J) -> Result<Self, EnqueueError> {
        let row = enqueue::new_job(job, &EnqueueOptions::new())?;
        self.key_per_queue = job.unique_key().filter(|_| row.unique.is_per_queue());
        self.payload = Some(NewPayload {
            kind: J::KIND.into(),
            payload: row.payload,
            typed: Some(TypedPayload {
                version: row.version,
                unique_key: row.unique_key,
                limit_key: row.limit_key,
            }),
        });
        Ok(self)
    }

    /// Another payload of a kind that this program has no type for: for tools.
    ///
    /// What the type would derive from the payload is not known here: the job keeps its version, its unique key and the limits that
    /// count it, and a payload that the handler cannot decode fails when it runs.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`] for a payload that does not serialize or cannot be stored.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use leasehold::manage::{self, Edit};
    /// use leasehold::{Schema, inspect};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_url, mut conn) = doctest_database();
    /// let id = Greet { name: "yuo".to_owned() }.enqueue(&mut conn)?.id();
    /// let mended = Edit::new().untyped_payload("greet", &serde_json::json!({ "name": "you" }))?;
    /// manage::edit(&mut conn, &Schema::default(), id, 0, &mended, "Ada")?;
    /// let job = inspect::job(&mut conn, &Schema::default(), id)?.expect("it is there");
    /// assert_eq!(job.payload, r#"{"name":"you"}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn untyped_payload(mut self, kind: impl Into<String>, payload: &impl Serialize) -> Result<Self, EnqueueError> {
        let (kind, payload) = enqueue::untyped_payload(kind.into(), payload)?;
        self.key_per_queue = None;
        self.payload = Some(NewPayload {
            kind: kind.into(),
            payload,
            typed: None,
        });
        Ok(self)
    }
}

/// Edits a ready job that still has the generation that the caller has seen; returns its new generation. A job that waits
/// for its next attempt is ready, too.
///
/// # Errors
///
/// [`EditError`]; nothing is changed then.
pub fn edit(
    conn: &mut impl AsBackend,
    schema: &Schema,
    id: i64,
    generation: i64,
    edit: &Edit,
    by: &str,
) -> Result<i64, EditError> {
    let conn = conn.as_backend();
    let mut change = Change {
        priority: edit.options.chosen_priority(),
        run_at: edit.options.chosen_run_at()?,
        payload: edit.payload.clone(),
    };
    if let (Some(new), Some(key)) = (&mut change.payload, &edit.key_per_queue) {
        // No edit changes the queue of a job.
        let job = conn.job(schema, id)?.ok_or(EditError::Missing { id })?;
        let stored = enqueue::stored_unique_key(&new.kind, Some(&job.queue), key);
        if let Some(typed) = &mut new.typed {
            typed.unique_key = Some(stored);
        }
    }
    let deed = Deed::new(by, None);
    let edited = conn.patiently(|conn| {
        deed.to_jobs(conn, schema, ("edit", 1), |conn| {
            let edited = conn.edit(schema, id, generation, &change)? == 1;
            Ok::<_, Error>((edited, edited.then_some(id).into_iter().collect()))
        })
    })??;
    if edited {
        crate::wake::wake_local();
        return Ok(generation + 1);
    }
    Err(match conn.ownership(schema, id)? {
        None => EditError::Missing { id },
        Some(row) if row.state != "ready" => EditError::State {
            id,
            state: State::parse(&row.state),
        },
        Some(row) if row.generation != generation => EditError::Conflict {
            id,
            current: row.generation,
        },
        Some(_) => EditError::Identity { id },
    })
}
