//! The worker processes: each has a place, and at each start a new name.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A worker process.
#[derive(Debug)]
struct Process {
    child: Child,
    name: String,
    /// Stopped until then.
    stopped: Option<Instant>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Crew {
    program: PathBuf,
    logs: PathBuf,
    places: Vec<Process>,
    started: usize,
}

impl Crew {
    pub(crate) fn start(program: &Path, logs: &Path, places: usize, url: impl Fn(&str, bool) -> String) -> Self {
        let mut crew = Self {
            program: program.to_owned(),
            logs: logs.to_owned(),
            places: Vec::new(),
            started: 0,
        };
        for place in 0..places {
            let process = crew.spawn(place, &url);
            crew.places.push(process);
        }
        crew
    }

    fn spawn(&mut self, place: usize, url: impl Fn(&str, bool) -> String) -> Process {
        self.started += 1;
        let name = format!("w{place}-{}", self.started);
        let child = Command::new(&self.program)
            .args(["worker", &url(&name, place.is_multiple_of(2))])
            .arg(self.logs.join(&name))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(if std::env::var_os("RUST_LOG").is_some() {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .spawn()
            .expect("the worker's program can be run");
        Process {
            child,
            name,
            stopped: None,
        }
    }

    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// The name of the process in a place.
    pub(crate) fn name(&self, place: usize) -> &str {
        &self.places[place].name
    }

    /// Kills the process in a place, and starts another.
    pub(crate) fn kill(&mut self, place: usize, url: impl Fn(&str, bool) -> String) {
        let _ = self.places[place].child.kill();
        let _ = self.places[place].child.wait();
        self.places[place] = self.spawn(place, url);
    }

    /// Stops the process in a place for so long; whether it went on until now.
    pub(crate) fn stop(&mut self, place: usize, time: Duration) -> bool {
        let process = &mut self.places[place];
        if process.stopped.is_some() || !process.signal(Signal::STOP) {
            return false;
        }
        process.stopped = Some(Instant::now() + time);
        true
    }

    /// Lets those go on whose time is up, and starts others for those that have ended by themselves; how many had.
    pub(crate) fn tend(&mut self, url: impl Fn(&str, bool) -> String) -> usize {
        let mut ended = 0;
        for place in 0..self.places.len() {
            let process = &mut self.places[place];
            if process.stopped.is_some_and(|until| Instant::now() >= until) {
                process.signal(Signal::CONT);
                process.stopped = None;
            }
            if matches!(process.child.try_wait(), Ok(Some(_))) {
                ended += 1;
                self.places[place] = self.spawn(place, &url);
            }
        }
        ended
    }

    /// Lets all go on.
    pub(crate) fn go_on(&mut self) {
        for process in &mut self.places {
            process.signal(Signal::CONT);
            process.stopped = None;
        }
    }

    /// How many processes there have been.
    pub(crate) fn started(&self) -> usize {
        self.started
    }
}

impl Process {
    fn signal(&self, signal: Signal) -> bool {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for process in &mut self.places {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
