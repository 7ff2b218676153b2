//! Which handler runs which kind.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, ClaimedRow, CountedKind, KindLimit, RunsKind, Served};
use crate::handler::{Handler, JobError};
use crate::job::{Backoff, Job, MAX_VERSION};
use crate::lease::{Decision, Held, LeaseGuard, Slot};
use crate::limit::Limit;
use crate::name;
use crate::panics::drop_contained;
use crate::settle::Ran;

/// A handler without its type: decodes the payload and runs it.
type Erased<C, A> = fn(&ClaimedRow, &mut dyn Slot<C>, Arc<Held>, &A) -> Result<Decision, JobError>;

/// What is registered for one kind.
pub(crate) struct Registered<C: Backend, A> {
    run: Erased<C, A>,
    job: TypeId,
    queue: &'static str,
    version: u32,
    limit: Limit,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Option<Duration>,
}

/// The kinds that a program runs.
pub(crate) struct Registry<C: Backend, A> {
    kinds: BTreeMap<&'static str, Registered<C, A>>,
    mistakes: Vec<RegistryError>,
}

/// A mistake in what was registered, reported when the worker starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two job types with one kind: a stored job could belong to either.
    #[error("the kind `{0}` is registered twice: give one of the two types another kind")]
    Twice(&'static str),
    /// A kind or queue name that cannot be used.
    #[error("`{name}` cannot be used: {source}")]
    Name {
        /// The kind or queue.
        name: &'static str,
        /// What is wrong with it.
        source: name::NameError,
    },
    /// A payload version out of range.
    #[error("`{kind}` has the payload version {version}: use 1 to {MAX_VERSION}, counting up by one")]
    Version {
        /// The kind.
        kind: &'static str,
        /// Its version.
        version: u32,
    },
    /// Nothing is registered, so nothing would run.
    #[error("no job type is registered, and no relay: call `register::<J>()` before starting")]
    Nothing,
}

impl<C: Backend, A> Registry<C, A> {
    pub(crate) fn new() -> Self {
        Self {
            kinds: BTreeMap::new(),
            mistakes: Vec::new(),
        }
    }

    /// Registers a job type under its kind, or under the kind that it had before a rename.
    pub(crate) fn register<J: Handler<C, A>>(&mut self, kind: &'static str) {
        for name in [kind, J::QUEUE] {
            if let Err(source) = name::check(name, 128) {
                self.mistakes.push(RegistryError::Name { name, source });
            }
        }
        if !(1..=MAX_VERSION).contains(&J::VERSION) {
            let version = J::VERSION;
            self.mistakes.push(RegistryError::Version { kind, version });
        }
        let registered = Registered {
            run: erased::<J, C, A>,
            job: TypeId::of::<J>(),
            queue: J::QUEUE,
            version: J::VERSION.min(MAX_VERSION),
            limit: J::LIMIT,
            backoff: J::BACKOFF,
            timeout: J::TIMEOUT,
        };
        if self.kinds.insert(kind, registered).is_some() {
            self.mistakes.push(RegistryError::Twice(kind));
        }
    }

    /// `relays`: whether there is something else to do.
    pub(crate) fn check(&self, relays: bool) -> Result<(), RegistryError> {
        match (self.mistakes.first(), self.kinds.is_empty() && !relays) {
            (Some(mistake), _) => Err(mistake.clone()),
            (None, true) => Err(RegistryError::Nothing),
            (None, false) => Ok(()),
        }
    }

    /// What the program serves: each kind in its own queue, or every kind in each of `queues`.
    pub(crate) fn serves(&self, queues: &[String]) -> Vec<Served> {
        let mut serves = Vec::new();
        for (kind, registered) in &self.kinds {
            let own = [registered.queue.to_owned()];
            for queue in if queues.is_empty() { &own } else { queues } {
                serves.extend((1..=registered.version).map(|version| Served {
                    queue: queue.clone(),
                    kind: (*kind).to_owned(),
                    version: i32::try_from(version).unwrap_or(i32::MAX),
                }));
            }
        }
        serves.sort();
        serves.dedup();
        serves
    }

    /// The limits of every kind. One without is among them: what was enqueued while it had a limit must not wait for ever.
    pub(crate) fn limits(&self) -> Vec<KindLimit> {
        let kinds = self.kinds.iter();
        kinds.map(|(kind, registered)| registered.limit.of_kind(kind)).collect()
    }

    /// The kinds that have a rate.
    pub(crate) fn counted(&self) -> Vec<CountedKind> {
        let limits = self.limits().into_iter();
        let counted = limits.filter_map(|limit| {
            Some(CountedKind {
                per_ms: limit.rate?.per_ms,
                kind: limit.kind,
            })
        });
        counted.collect()
    }

    pub(crate) fn timeout(&self, kind: &str) -> Option<Duration> {
        self.kinds.get(kind).and_then(|registered| registered.timeout)
    }

    pub(crate) fn backoff(&self, kind: &str) -> Backoff {
        self.kinds
            .get(kind)
            .map_or(Backoff::fixed(Duration::from_secs(60)), |registered| registered.backoff)
    }

    /// Runs one claimed job. A panic ends the attempt, not the thread.
    pub(crate) fn run(&self, row: &ClaimedRow, slot: &mut dyn Slot<C>, held: Arc<Held>, app: &A) -> Ran {
        let Some(registered) = self.kinds.get(row.kind.as_str()) else {
            return Ran::Returned(Err(JobError::retry(format!(
                "the kind {:?} is not registered here",
                row.kind
            ))));
        };
        contained(|| (registered.run)(row, slot, held, app))
    }

    /// The kinds with the highest version of each that can be decoded, whatever the queue.
    pub(crate) fn runs(&self) -> Vec<RunsKind> {
        let kinds = self.kinds.iter();
        let runs = kinds.map(|(kind, registered)| RunsKind {
            kind: (*kind).to_owned(),
            version: i32::try_from(registered.version).unwrap_or(i32::MAX),
        });
        runs.collect()
    }

    /// Whether jobs of this kind are of this type.
    pub(crate) fn is_of(&self, kind: &str, job: TypeId) -> bool {
        self.kinds.get(kind).is_some_and(|registered| registered.job == job)
    }
}

/// Runs a handler's code: a panic ends the attempt, not the thread.
pub(crate) fn contained(run: impl FnOnce() -> Result<Decision, JobError>) -> Ran {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(returned) => Ran::Returned(returned),
        Err(panic) => {
            let text = panic_text(panic.as_ref());
            drop_contained(panic);
            Ran::Panicked(text)
        }
    }
}

fn erased<J: Handler<C, A>, C: Backend, A>(
    row: &ClaimedRow,
    slot: &mut dyn Slot<C>,
    held: Arc<Held>,
    app: &A,
) -> Result<Decision, JobError> {
    let job: J = decode(row.version, &row.payload)?;
    job.run(LeaseGuard::new(slot, held), app)
        .map(|receipt| receipt.decision)
}

/// Decodes a payload. One that this program cannot decode would fail at every attempt, so it is discarded, and kept.
pub(crate) fn decode<J: Job>(version: i32, payload: &str) -> Result<J, JobError> {
    let version = version.unsigned_abs();
    if version == J::VERSION {
        return serde_json::from_str(payload).map_err(|error| undecodable(version, &error));
    }
    let old = serde_json::from_str(payload).map_err(|error| undecodable(version, &error))?;
    let new = J::migrate(version, old)
        .map_err(|error| JobError::discard(format!("the payload of version {version} was not migrated: {error}")))?;
    serde_json::from_value(new).map_err(|error| undecodable(version, &error))
}

fn undecodable(version: u32, error: &serde_json::Error) -> JobError {
    JobError::discard(format!("the payload of version {version} cannot be decoded: {error}"))
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with a value that is not a text".to_owned())
}
