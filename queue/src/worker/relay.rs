//! Relays: threads that deliver the events of the outbox.
//!
//! They share a connection, which they ask for in turn and for one short statement or transaction at a time. A delivery has
//! none: however slow it is, it holds up the later events of its own batch and nobody else.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select};
use diesel::result::QueryResult;

use super::control::{Failure, spread};
use super::running::join_until;
use super::threads::spawn;
use super::{Locked, Shared, StartError, Worker};
use crate::backend::Backend;
use crate::lease::Fence;
use crate::name;
use crate::outbox::{Deliver, Relay};

mod batch;
use batch::{Batch, Kept};

mod claim;
use claim::{Claims, Found, KEYS};

/// How often a relay looks for an event whose commit is to come.
const LOOK_OFTEN: Duration = Duration::from_millis(5);
/// How long to wait when another relay claims from the topic.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How long a delivery's end may take to be written at a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A topic and how it is delivered.
pub(crate) struct Topic {
    pub(super) name: String,
    pub(super) relay: Relay,
}

/// What a relay's thread shares with whoever stops it.
struct Duty {
    /// Claimed, and not begun.
    rest: Locked<VecDeque<Kept>>,
    /// Whether a delivery is under way.
    delivering: AtomicBool,
}

/// A relay's thread.
pub(super) struct RelayThread {
    topic: String,
    duty: Arc<Duty>,
    thread: JoinHandle<()>,
}

impl<C: Backend, A: Send + Sync + 'static> Worker<C, A> {
    /// Delivers the events of an [outbox](mod@crate::outbox) topic; see [`Deliver`] for what is promised. Any number of
    /// topics, each once; a worker with nothing else to do may start, too.
    ///
    /// ```
    /// # include!("../doctest_setup.rs");
    /// use leasehold::Worker;
    /// use leasehold::outbox::{DeliverError, Delivery};
    ///
    /// # fn post(_: &str, _: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (url, _conn) = doctest_database();
    /// fn deliver(delivery: &Delivery<'_>) -> Result<(), DeliverError> {
    ///     Ok(post(delivery.payload_json(), &delivery.event_id().to_string())?)
    /// }
    ///
    /// let running = Worker::<SqliteConnection, _>::new(url, ()).relay("orders", deliver).start()?;
    /// # running.shutdown(std::time::Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn relay(self, topic: impl Into<String>, deliver: impl Deliver) -> Self {
        self.relay_with(topic, Relay::new(deliver))
    }

    /// As [`Worker::relay`], with options.
    #[must_use]
    pub fn relay_with(mut self, topic: impl Into<String>, relay: Relay) -> Self {
        let name = topic.into();
        self.relays.push(Topic { name, relay });
        self
    }
}

/// Finds mistakes before anything runs.
pub(super) fn check(relays: &[Topic]) -> Result<(), StartError> {
    let mut names = BTreeSet::new();
    for topic in relays {
        name::check(&topic.name, 128).map_err(StartError::Topic)?;
        if !names.insert(&topic.name) {
            return Err(StartError::RelayTwice(topic.name.clone()));
        }
    }
    Ok(())
}

/// Starts the threads of every relay.
pub(super) fn start<C: Backend, A: Send + Sync + 'static>(
    shared: &Arc<Shared<C, A>>,
) -> std::io::Result<Vec<RelayThread>> {
    let mut threads = Vec::new();
    for (index, topic) in shared.relays.iter().enumerate() {
        for _ in 0..topic.relay.threads {
            let (wake, wakes) = bounded(1);
            crate::wake::register_relay(wake);
            let duty = Arc::new(Duty {
                rest: Locked::new(VecDeque::new()),
                delivering: AtomicBool::new(false),
            });
            let thread = spawn("relay", shared, {
                let duty = Arc::clone(&duty);
                move |shared| run(shared, &shared.relays[index], &duty, &wakes)
            })?;
            threads.push(RelayThread {
                topic: topic.name.clone(),
                duty,
                thread,
            });
        }
    }
    Ok(threads)
}

/// Delivers until the worker stops.
fn run<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, topic: &Topic, duty: &Duty, wakes: &Receiver<()>) {
    let mut claims = Claims::new(shared, topic);
    let mut gone = 0;
    while !shared.stop.is_stopping() {
        let found = claims.next();
        gone = if matches!(found, Ok(Found::Gone)) { gone + 1 } else { 0 };
        match found {
            Ok(Found::Claimed { kept, sent }) => {
                duty.rest.lock().extend(kept);
                Batch::new(shared, topic, duty, sent).deliver();
            }
            Ok(Found::Busy) => pause(shared, spread(BUSY_WAIT)),
            // Twice as long each time: it may be a person's lock.
            Ok(Found::Gone) => pause(shared, spread(BUSY_WAIT * (1 << gone.min(6)))),
            Ok(Found::Further(wait)) => pause(shared, wait),
            Ok(Found::Nothing(next)) => {
                let poll = spread(shared.poll);
                rest(shared, wakes, next.map_or(poll, |next| next.min(poll)));
            }
            Err(_) => {
                let wait = shared.outbox.lock().next_wait();
                pause(shared, wait);
            }
        }
    }
}

/// Waits until something may be due.
fn rest<C: Backend, A>(shared: &Shared<C, A>, wakes: &Receiver<()>, time: Duration) {
    let time = if crate::wake::is_event_expected() {
        time.min(LOOK_OFTEN)
    } else {
        time
    };
    let time = shared.idle_relays.enter(time);
    select! {
        recv(wakes) -> _ => {}
        recv(shared.stop.stopped()) -> _ => {}
        default(time) => {}
    }
    shared.idle_relays.leave();
}

fn pause<C: Backend, A>(shared: &Shared<C, A>, time: Duration) {
    select! {
        recv(shared.stop.stopped()) -> _ => {}
        default(time) => {}
    }
}

/// Runs one statement or transaction on the connection of relays, which does not wait long for a lock.
fn briefly<C: Backend, A, T>(
    shared: &Shared<C, A>,
    statement: impl FnOnce(&mut C) -> QueryResult<T>,
) -> Result<T, Failure> {
    let mut outbox = shared.outbox.lock();
    outbox.run(|conn| conn.briefly(&shared.settings, statement))
}

/// Releases what was not begun.
pub(super) fn release<C: Backend, A: Send + Sync + 'static>(shared: &Shared<C, A>, threads: &[RelayThread]) {
    for RelayThread { duty, .. } in threads {
        let rest: Vec<Kept> = duty.rest.lock().drain(..).collect();
        let mut fences: Vec<Fence> = rest.iter().map(|kept| kept.fence).collect();
        fences.sort_unstable();
        if !fences.is_empty() {
            match briefly(shared, |conn| conn.release_events(&shared.schema, &fences)) {
                Ok(released) => log::info!("relay: released {} of {} events", released.len(), fences.len()),
                Err(failure) => log::warn!("relay: {} events are left to their lease: {failure}", fences.len()),
            }
        }
    }
}

/// Waits for the deliveries that are under way. One that still runs at the deadline is left to its lease: it may arrive yet,
/// and what follows it must not be there before.
pub(super) fn stop(threads: Vec<RelayThread>, deadline: Option<Instant>, at_once: &AtomicBool) {
    for RelayThread { topic, duty, thread } in threads {
        let last_words = Instant::now() + LAST_WORDS;
        let is_delivering = || duty.delivering.load(Ordering::Acquire);
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline) || at_once.load(Ordering::Acquire);
        join_until(thread, deadline.map(|deadline| deadline.max(last_words)), || {
            is_late() && is_delivering()
        });
        if is_delivering() {
            log::warn!("relay topic={topic:?}: a delivery still ran at the deadline; its lease decides");
        }
    }
}

/// Whether no relay of this worker has anything to do, or will within `patience`, or another one is at it.
pub(super) fn is_idle<C: Backend, A>(shared: &Shared<C, A>, patience: Duration) -> bool {
    let soon = |ms: Option<i64>| ms.is_some_and(|ms| Duration::from_millis(ms.unsigned_abs()) <= patience);
    shared.relays.iter().all(|topic| {
        let look = shared
            .outbox
            .lock()
            .read(|conn| conn.look_at_topic(&shared.schema, &topic.name));
        if !look.is_ok_and(|look| look.running == 0 && !soon(look.next_ms)) {
            return false;
        }
        let mut after = String::new();
        loop {
            let halt = topic.relay.halt;
            let keys = shared
                .outbox
                .lock()
                .read(|conn| conn.look_at_keys(&shared.schema, &topic.name, &after, KEYS, halt));
            let Ok(keys) = keys else { return false };
            if keys.iter().any(|key| soon(key.next_ms)) {
                return false;
            }
            match keys.last() {
                Some(last) if i64::try_from(keys.len()) == Ok(KEYS) => after.clone_from(&last.key),
                _ => return true,
            }
        }
    })
}
