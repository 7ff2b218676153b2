//! Hearing of enqueues and cancels on PostgreSQL, on libpq's own functions.
//!
//! Diesel's iterator over notifications never blocks and shows no socket, so it could only be asked again and again;
//! once a millisecond costs some percent of a core. Here the thread sleeps in `poll` until the server says something or
//! the worker stops. It also says in the database that somebody here is idle, and would hear of an enqueue. Losing a
//! notification costs time, never a job: the claimer looks by itself, too.

use std::convert::Infallible;
use std::io::PipeReader;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::control::spread;
use crate::backend::Wakes;
use crate::schema::Schema;

mod mark;
use mark::{Mark, Next};

mod session;
use session::{Heard, ListenError, Session};

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Tells whenever something was enqueued, cancelled or emitted in `schema`, until the other end of `stop` is closed. `poke`
/// is what `wakes.idle` was given.
///
/// `conninfo` is a URL or `key=value` pairs, with time limits on silence; it is never logged.
pub fn listen(conninfo: &str, schema: &Schema, wakes: &Wakes, stop: &PipeReader, poke: &PipeReader) {
    let schema = schema.name();
    let mut wait = FIRST_WAIT;
    let mut away_since = None;
    loop {
        let begun = Instant::now();
        let heard = Session::connect(conninfo, schema, stop).and_then(|mut session| {
            match away_since.take() {
                None => log::debug!("listen: listening schema={schema}"),
                Some(since) => {
                    log::info!(
                        "listen: the database is back after {:?} schema={schema}",
                        Instant::elapsed(&since)
                    );
                }
            }
            hear(&mut session, schema, wakes, poke)
        });
        let Err(error) = heard;
        if matches!(error, ListenError::Stopped) {
            return;
        }
        if away_since.is_none() {
            log::warn!("listen: the database is away ({error}); trying again schema={schema}");
            away_since = Some(Instant::now());
        }
        // A server that accepts and hangs up at once is away as well.
        if begun.elapsed() > LONGEST_WAIT {
            wait = FIRST_WAIT;
        }
        if is_stopped_within(stop, spread(wait)) {
            return;
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Passes on what is heard, and keeps the marks, for as long as the session lives.
fn hear(session: &mut Session<'_>, schema: &str, wakes: &Wakes, poke: &PipeReader) -> Result<Infallible, ListenError> {
    let wake_claimers = || {
        let _ = wakes.enqueued.try_send(());
    };
    let mut claimers = Mark::new(schema, &wakes.idle, &wake_claimers);
    let mut relays = Mark::new(
        &format!("{schema}_outbox"),
        &wakes.idle_relays,
        &crate::wake::wake_relays,
    );
    // Something may have come while nobody listened.
    wake_claimers();
    crate::wake::wake_relays();
    let _ = wakes.cancelled.try_send(());
    loop {
        let Heard {
            enqueued,
            cancelled,
            emitted,
        } = session.take_notifications();
        claimers.heard(enqueued, session)?;
        relays.heard(emitted, session)?;
        if cancelled > 0 {
            let _ = wakes.cancelled.try_send(());
        }
        if let Next::Wait(one) = claimers.tend(session)?
            && let Next::Wait(other) = relays.tend(session)?
        {
            session.wait(poke, [one, other].into_iter().flatten().min())?;
        }
    }
}

/// Whether the worker stops within `time`, which is waited for otherwise.
fn is_stopped_within(stop: &PipeReader, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Out of range it cannot be: it is seconds.
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            ready => return ready != Ok(0),
        }
    }
}
