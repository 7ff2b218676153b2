//! The worker processes: the library's, and one of bare statements. Each says on standard output which job began when.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, Worker};
use leasehold_benches::clock::{cpu_time, now_ns};
use leasehold_benches::statements;
use leasehold_benches::work::Answer;
use serde::{Deserialize, Serialize};

/// A job whose handler takes so long.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "probe")]
pub(crate) struct Probe {
    pub(crate) work_us: u64,
}

/// Whether statements are told with each job.
static PROFILE: AtomicBool = AtomicBool::new(false);

impl<C: Backend> Handler<C> for Probe {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        let at = now_ns();
        tell_begun(lease.job_id(), at);
        std::thread::sleep(Duration::from_micros(self.work_us));
        lease.finish()
    }
}

fn tell_begun(id: i64, at: u64) {
    let mut line = format!("begun {id} {at}");
    if PROFILE.load(Ordering::Relaxed) {
        for ran in statements::take() {
            line.push_str(&format!(" {:?}:{}:{}", ran.which, ran.began, ran.ended));
        }
    }
    tell(&line);
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever does not listen any more has what was wanted.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// `worker library|profile|reference URL THREADS`
pub(crate) fn main(arguments: &[String]) -> Answer {
    let [who, url, threads] = arguments else {
        return Err("usage: latency worker WHO URL THREADS".into());
    };
    let threads: usize = threads.parse()?;
    let is_postgres = url.starts_with("postgres");
    match (who.as_str(), is_postgres) {
        #[cfg(feature = "postgres")]
        ("reference", true) => reference(url, threads),
        #[cfg(feature = "postgres")]
        ("library", true) => library::<diesel::PgConnection>(url, threads),
        #[cfg(feature = "postgres")]
        ("profile", true) => {
            PROFILE.store(true, Ordering::Relaxed);
            statements::record()?;
            library::<diesel::PgConnection>(url, threads)
        }
        #[cfg(feature = "sqlite")]
        ("library", false) => library::<diesel::SqliteConnection>(url, threads),
        _ => Err(format!("no {who} for {url}").into()),
    }
}

fn library<C: Backend>(url: &str, threads: usize) -> Answer {
    let running = Worker::<C, ()>::new(url, ())
        .threads(threads)
        .register::<Probe>()
        .start()?;
    answer_until_closed();
    drop(running);
    Ok(())
}

/// Says how much processor time was used whenever a line comes in; ends with the other end of the pipe.
fn answer_until_closed() {
    tell("ready");
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            return;
        }
        tell(&format!("cpu {}", cpu_time().as_nanos()));
    }
}

/// As many threads that listen, wait in poll(2), claim one and finish it.
#[cfg(feature = "postgres")]
fn reference(url: &str, threads: usize) -> Answer {
    use leasehold_benches::reference::Reference;
    for _ in 0..threads {
        let mut reference = Reference::connect(url, Probe::KIND)?;
        reference.conn().execute("LISTEN leasehold")?;
        std::thread::spawn(move || {
            if let Err(error) = serve(&mut reference) {
                log::error!("the reference ends: {error}");
            }
        });
    }
    answer_until_closed();
    Ok(())
}

#[cfg(feature = "postgres")]
fn serve(reference: &mut leasehold_benches::reference::Reference) -> Answer {
    loop {
        let claimed = reference.claim(1)?;
        let Some(id) = claimed.ids.first() else {
            reference.conn().wait(Duration::from_secs(1))?;
            continue;
        };
        // As a handler has it: with its payload decoded.
        let probe: Probe = serde_json::from_str(claimed.payloads().first().ok_or("no payload")?)?;
        tell_begun(*id, now_ns());
        std::thread::sleep(Duration::from_micros(probe.work_us));
        reference.finish(&claimed)?;
    }
}
