use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crossbeam_channel::{Receiver, unbounded};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::eventually;
use crate::jobs::SOON;

/// A program of `src/bin`, in a process of its own that goes with this.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    output: Receiver<String>,
    log: Receiver<String>,
}

impl WorkerProcess {
    /// Starts `program` (a test has its path in `CARGO_BIN_EXE_leasehold-test-worker`) in the mode `drain`, `serve` or
    /// `relay=` with a URL.
    pub fn start(program: &str, mode: &str, url: &str) -> Self {
        let mut child = Command::new(program)
            .args([mode, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the worker's program can be run");
        let output = lines(child.stdout.take().expect("a pipe"));
        let log = lines(child.stderr.take().expect("a pipe"));
        Self { child, output, log }
    }

    /// The next line of its output, which must be this one.
    #[track_caller]
    pub fn says(&self, line: &str) {
        assert_eq!(self.line(), line);
    }

    /// The next line of its output.
    #[track_caller]
    pub fn line(&self) -> String {
        self.output.recv_timeout(SOON).expect("the process says something")
    }

    /// Waits until its log has a line with `text`; all lines up to it.
    #[track_caller]
    pub fn logs(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.log.recv_timeout(SOON);
            let line = line.unwrap_or_else(|_| panic!("the log says {text:?}; it said {lines:#?}"));
            let found = line.contains(text);
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// What its log has said since, without waiting.
    pub fn more_log(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }

    /// Lets the handler of step `n` go on.
    pub fn go(&mut self, n: i64) {
        self.tell(&format!("go {n}"));
    }

    /// Writes a line to its input.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("the process reads");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("the process lives");
    }

    /// Stops it until a SIGCONT, at an instant when `is_free` holds: one that is stopped while it has the database's write
    /// lock would stop everybody.
    #[track_caller]
    pub fn stop(&self, mut is_free: impl FnMut() -> bool) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        eventually(SOON, "it is stopped where it is in nobody's way", || {
            self.signal(Signal::STOP);
            // The signal is sent, and its threads go on for a moment.
            waitpid(pid, WaitOptions::UNTRACED).expect("the process stops");
            let free = is_free();
            if !free {
                self.signal(Signal::CONT);
            }
            free
        });
    }

    /// Waits for its end. Its input stays open: with it closed, the process ends by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually(SOON, "the process ends", || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.expect("it was waited for")
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Kills it, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Its lines, read by a thread so that a full pipe never stops the process.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = unbounded();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
