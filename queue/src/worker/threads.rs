//! The threads of one worker, and the channels between them.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::claimer::Claimer;
use super::control::Control;
use super::executor::Ends;
use super::relay::{self, RelayThread};
use super::{Shared, checker, health, heartbeat, maintenance, settler, spawn_executor};
use crate::backend::{Backend, Listening, Wakes};

pub(super) struct Threads {
    pub(super) claimer: JoinHandle<()>,
    pub(super) maintenance: JoinHandle<()>,
    pub(super) checker: JoinHandle<()>,
    pub(super) settler: JoinHandle<()>,
    pub(super) heartbeat: JoinHandle<()>,
    pub(super) heartbeat_stop: Sender<()>,
    pub(super) relays: Vec<RelayThread>,
    pub(super) listener: Option<Listening>,
}

impl Threads {
    /// Starts every thread. The order does not matter: they wait for each other on channels.
    pub(super) fn start<C: Backend, A: Send + Sync + 'static>(
        shared: &Arc<Shared<C, A>>,
        wanted: Receiver<()>,
        wakes: Receiver<()>,
    ) -> io::Result<Self> {
        let (settle, arrivals) = unbounded();
        shared.choosing.settle_by(&settle);
        let ends = Ends {
            settle: settle.clone(),
            wake: wakes.clone(),
        };
        let claimer = spawn("claimer", shared, move |shared| {
            if !shared.unbatched {
                Claimer::new(shared, wanted, settle, wakes).run();
            }
        })?;
        let settler = spawn("settler", shared, move |shared| {
            settler::run(shared, Control::new("settle", &shared.url, &shared.settings), &arrivals);
        })?;
        let (heartbeat_stop, heartbeat_stopped) = bounded(0);
        let heartbeat = spawn("heartbeat", shared, {
            let ends = ends.clone();
            let heartbeat_stopped = heartbeat_stopped.clone();
            move |shared| heartbeat::run(shared, &ends, &heartbeat_stopped)
        })?;
        let maintenance = spawn("maintenance", shared, |shared| maintenance::run(shared))?;
        let checker = spawn("checker", shared, move |shared| {
            checker::run(shared, &heartbeat_stopped);
        })?;
        let told = Wakes {
            enqueued: shared.wake.clone(),
            cancelled: shared.cancels.0.clone(),
            idle: Arc::clone(&shared.idle),
            idle_relays: Arc::clone(&shared.idle_relays),
        };
        let listener = C::listen(&shared.url, &shared.settings, &shared.schema, told)?;
        let relays = relay::start(shared)?;
        for _ in 0..shared.threads {
            spawn_executor(shared, ends.clone());
        }
        Ok(Self {
            claimer,
            maintenance,
            checker,
            settler,
            heartbeat,
            heartbeat_stop,
            relays,
            listener,
        })
    }
}

pub(super) fn spawn<C: Backend, A: Send + Sync + 'static>(
    name: &str,
    shared: &Arc<Shared<C, A>>,
    work: impl FnOnce(&Arc<Shared<C, A>>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let pulse = shared.signs.enlist(name);
    Builder::new().name(format!("leasehold-{name}")).spawn(move || {
        let _attached = health::attach(pulse);
        work(&shared);
    })
}
