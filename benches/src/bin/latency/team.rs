//! Worker processes of one sort, and what they say.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use leasehold_benches::work::Answer;

/// How long anything may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A handler began.
#[derive(Debug, Clone)]
pub(crate) struct Begun {
    pub(crate) id: i64,
    pub(crate) at: u64,
    /// Which statement ran from when to when; of a worker that tells its profile.
    pub(crate) statements: Vec<(String, u64, u64)>,
}

/// Some processes that serve one database.
pub(crate) struct Team {
    members: Vec<Member>,
    begun: Receiver<Begun>,
    /// Heard while another job was waited for.
    early: HashMap<i64, Begun>,
}

struct Member {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Team {
    /// Starts so many processes; `who` as the worker's command line has it.
    pub(crate) fn start(who: &str, url: &str, processes: usize, threads: usize) -> Answer<Self> {
        let (tell, begun) = unbounded();
        let members = (0..processes)
            .map(|_| Member::start(who, url, threads, &tell))
            .collect::<Answer<Vec<_>>>()?;
        for member in &members {
            member.answer()?;
        }
        // For the first looks and heartbeats after the start.
        std::thread::sleep(Duration::from_millis(300));
        Ok(Self {
            members,
            begun,
            early: HashMap::new(),
        })
    }

    /// Waits for the handler of this job to begin.
    pub(crate) fn wait(&mut self, id: i64) -> Answer<Begun> {
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

    /// Processor time used by each process so far.
    pub(crate) fn cpu_times(&mut self) -> Answer<Vec<Duration>> {
        self.members
            .iter_mut()
            .map(|member| {
                let orders = member.orders.as_mut().ok_or("the worker is stopping")?;
                writeln!(orders, "cpu")?;
                let answer = member.answer()?;
                let nanos = answer.strip_prefix("cpu ").ok_or("another answer")?;
                Ok(Duration::from_nanos(nanos.parse()?))
            })
            .collect()
    }
}

impl Member {
    fn start(who: &str, url: &str, threads: usize, begun: &Sender<Begun>) -> Answer<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", who, url, &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let (tell, answers) = unbounded();
        let begun = begun.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match read_begun(&line) {
                    Some(job) => drop(begun.send(job)),
                    None => drop(tell.send(line)),
                }
            }
        });
        Ok(Self {
            orders: child.stdin.take(),
            child,
            answers,
        })
    }

    fn answer(&self) -> Answer<String> {
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

fn read_begun(line: &str) -> Option<Begun> {
    let mut words = line.strip_prefix("begun ")?.split(' ');
    let (id, at) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let statements = words.filter_map(|word| {
        let mut parts = word.split(':');
        let which = parts.next()?.to_owned();
        Some((which, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    Some(Begun {
        id,
        at,
        statements: statements.collect(),
    })
}
