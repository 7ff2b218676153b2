//! Workers of one sort, and what they say.

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use leasehold::Running;
use serde::{Deserialize, Serialize};

use super::serve::{ORDER_VARIABLE, Order, Told, Who, library_here, raw_here};
use crate::statements::Ran;
use crate::{Answer, Bench};

/// How long anything may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// After a start there are first looks and heartbeats.
const SETTLES_IN: Duration = Duration::from_millis(300);

/// A handler began.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) id: i64,
    /// On the machine's monotonic clock.
    pub(super) at: u64,
    pub(super) statements: Vec<Ran>,
}

/// Where a team works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Here,
    Processes(usize),
}

/// Workers that serve one database.
pub(super) struct Team<C: Bench> {
    members: Vec<Member>,
    running: Option<Running<C, ()>>,
    /// Told when something was enqueued, where nobody else tells.
    wake: Option<Sender<()>>,
    begun: Receiver<Begun>,
    /// Heard while another job was waited for.
    early: HashMap<i64, Begun>,
}

impl<C: Bench> Team<C> {
    pub(super) fn start(who: Who, url: &str, place: Place, threads: usize, work: Duration) -> Answer<Self> {
        let (tell, begun) = unbounded();
        let mut team = Self {
            members: Vec::new(),
            running: None,
            wake: None,
            begun,
            early: HashMap::new(),
        };
        match place {
            Place::Here if who == Who::Raw => {
                let (wake, wakes) = bounded(1);
                raw_here::<C>(url, tell, wakes)?;
                team.wake = Some(wake);
            }
            Place::Here => team.running = Some(library_here(url, threads, tell)?),
            Place::Processes(processes) => {
                let order = Order {
                    backend: C::NAME.to_owned(),
                    who,
                    url: url.to_owned(),
                    threads,
                    work_us: u64::try_from(work.as_micros())?,
                };
                for _ in 0..processes {
                    team.members.push(Member::start(&order, &tell)?);
                }
            }
        }
        for member in &team.members {
            member.answer()?;
        }
        thread::sleep(SETTLES_IN);
        Ok(team)
    }

    pub(super) fn enqueued(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }

    /// Waits for the handler of this job to begin.
    pub(super) fn wait(&mut self, id: i64) -> Answer<Begun> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(begun) = self.early.remove(&id) {
                return Ok(begun);
            }
            let begun = self
                .begun
                .recv_deadline(deadline)
                .map_err(|_| format!("job {id} has not begun within a minute"))?;
            self.early.insert(begun.id, begun);
        }
    }

    /// Processor time used by all processes so far.
    pub(super) fn cpu_time(&mut self) -> Answer<Duration> {
        let mut all = Duration::ZERO;
        for member in &mut self.members {
            let orders = member.orders.as_mut().ok_or("the worker is stopping")?;
            writeln!(orders, "cpu")?;
            match member.answer()? {
                Told::Cpu(nanos) => all += Duration::from_nanos(nanos),
                other => return Err(format!("{other:?} is no processor time").into()),
            }
        }
        Ok(all)
    }
}

impl<C: Bench> Drop for Team<C> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.shutdown(PATIENCE);
        }
    }
}

struct Member {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Told>,
}

impl Member {
    fn start(order: &Order, begun: &Sender<Begun>) -> Answer<Self> {
        let mut child = Command::new(env::current_exe()?)
            .env(ORDER_VARIABLE, serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("a worker process has no output")?;
        let (tell, answers) = unbounded();
        let begun = begun.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(Told::Begun(job)) => drop(begun.send(job)),
                    Ok(told) => drop(tell.send(told)),
                    Err(error) => log::error!("{line}: {error}"),
                }
            }
        });
        Ok(Self {
            orders: child.stdin.take(),
            child,
            answers,
        })
    }

    fn answer(&self) -> Answer<Told> {
        let answer = self.answers.recv_timeout(PATIENCE);
        Ok(answer.map_err(|_| "a worker process has ended, or says nothing")?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It ends when nobody gives orders any more.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
