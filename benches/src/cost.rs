//! What a job costs: processor time of client and server, WAL, commits, dead row versions; ours and the reference in turn.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::jobs::Kind;
use crate::ours::{Batch, Work};
use crate::raw::shapes;
use crate::report::{OURS, RAW, Row};
use crate::rounds::{Case, Measured, run};
use crate::{Answer, Bench, Database, Extent, Options, Place, Report, Setting, ours};

const BENCH: &str = "cost";
/// Threads of ours, and connections that commit of the reference.
const THREADS: usize = 8;
/// Connections that claim and finish of the reference.
const CONNECTIONS: usize = 2;
/// Jobs in a claim, where it is fixed.
const BATCH: usize = 50;

/// A counter of what was spent so far.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Of what.
    pub what: &'static str,
    /// For one job.
    pub unit: &'static str,
    /// So far, for all.
    pub amount: f64,
}

impl Spent {
    /// So much.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the difference of two is what counts")]
    pub fn new(what: &'static str, unit: &'static str, amount: i64) -> Self {
        Self {
            what,
            unit,
            amount: amount as f64,
        }
    }

    fn cpu(what: &'static str, time: Duration) -> Self {
        Self {
            what,
            unit: "µs/job",
            amount: time.as_secs_f64() * 1e6,
        }
    }
}

/// Measures on both backends.
///
/// # Errors
///
/// A database's, or when a job was not completed.
pub fn measure(options: &Options, place: &Place, report: &mut Report) -> Answer {
    #[cfg(feature = "postgres")]
    if options.wants("postgres") {
        measure_on::<diesel::PgConnection>(options, place, report)?;
    }
    #[cfg(feature = "sqlite")]
    if options.wants("sqlite") {
        measure_on::<diesel::SqliteConnection>(options, place, report)?;
    }
    Ok(())
}

fn measure_on<C: Bench>(options: &Options, place: &Place, report: &mut Report) -> Answer {
    Database::<C>::new(place)?.conn.describe(report)?;
    let fixed = Setting::new().with("threads", THREADS).with("batch", BATCH);
    let mut cases = vec![
        ours_case::<C>(place, Kind::Finish, Batch::Fixed(BATCH), fixed),
        raw_case::<C>(place, Kind::Finish),
    ];
    if options.extent > Extent::Brief {
        for kind in [Kind::Finish, Kind::Commit] {
            let setting = Setting::new().with("threads", THREADS);
            cases.push(ours_case::<C>(place, kind, Batch::Adaptive, setting));
        }
        cases.push(raw_case::<C>(place, Kind::Commit));
    }
    run(report, options, &cases)
}

fn ours_case<C: Bench>(place: &Place, kind: Kind, batch: Batch, setting: Setting) -> Case<'_> {
    let work = Work {
        kind,
        threads: THREADS,
        batch,
    };
    let measure = move |jobs| counted::<C>(place, kind, jobs, |url| Ok(ours::work::<C>(url, &work)?.took()));
    Case {
        row: row::<C>(kind, OURS, setting),
        measure: Box::new(measure),
    }
}

fn raw_case<C: Bench>(place: &Place, kind: Kind) -> Case<'_> {
    let threads = match kind {
        _ if C::ONE_WRITER => 1,
        Kind::Finish => CONNECTIONS,
        Kind::Commit => THREADS,
    };
    let measure = move |jobs| {
        let like = kind.plain()?;
        counted::<C>(place, kind, jobs, |url| match kind {
            Kind::Finish => shapes::finish::<C::Raw>(url, &like, jobs, threads, BATCH),
            Kind::Commit if C::ONE_WRITER => shapes::commit_alone::<C::Raw>(url, &like, jobs, BATCH),
            Kind::Commit => shapes::commit::<C::Raw>(url, &like, jobs, threads, BATCH),
        })
    };
    let setting = Setting::new().with("threads", threads).with("batch", BATCH);
    Case {
        row: row::<C>(kind, RAW, setting),
        measure: Box::new(measure),
    }
}

fn row<C: Bench>(kind: Kind, system: &str, setting: Setting) -> Row {
    Row {
        bench: BENCH,
        what: format!("{}: rate", kind.name()),
        system: system.to_owned(),
        backend: C::NAME,
        setting,
        unit: "jobs/s",
        values: Vec::new(),
    }
}

/// Does the work on a database of its own, and tells what it has cost.
#[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
fn counted<C: Bench>(
    place: &Place,
    kind: Kind,
    jobs: usize,
    work: impl FnOnce(&str) -> Answer<Duration>,
) -> Answer<Measured> {
    let mut database = Database::<C>::filled(place, kind, jobs)?;
    let (before, client) = (database.conn.spent()?, client_cpu());
    let took = work(&database.url)?;
    let client = client_cpu().saturating_sub(client);
    let after = database.conn.spent()?;
    let mut measured = Measured::new(jobs, took);
    let mut all = vec![Spent::cpu("client CPU", client)];
    for (after, before) in after.into_iter().zip(before) {
        let amount = after.amount - before.amount;
        all.push(Spent { amount, ..after });
    }
    if let Some(server) = all.iter().find(|spent| spent.what == SERVER_CPU) {
        let amount = all[0].amount + server.amount;
        all.push(Spent {
            what: "CPU of both",
            amount,
            ..*server
        });
    }
    for spent in all {
        let name = format!("{}: {}", kind.name(), spent.what);
        measured.beside.push((name, spent.amount / jobs as f64, spent.unit));
    }
    Ok(measured)
}

/// Of all threads of this process.
fn client_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

const SERVER_CPU: &str = "server CPU";

/// The processor time of the server of which `backend` is a process, with all its processes, those that have ended among
/// them. `None` where the server is on another machine, or this one does not tell.
#[must_use]
pub fn server_cpu(backend: i32) -> Option<Spent> {
    let server = Process::read(&backend.to_string())?.parent;
    let all = fs::read_dir("/proc").ok()?.flatten();
    let all = all.filter_map(|entry| Process::read(entry.file_name().to_str()?));
    let ticks: u64 = all
        .map(|process| match process {
            Process { id, .. } if id == server => process.own + process.ended,
            Process { parent, .. } if parent == server => process.own,
            _ => 0,
        })
        .sum();
    let seconds = Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some(Spent::cpu(SERVER_CPU, seconds))
}

/// What this process has given the system to write, where the system tells.
#[must_use]
pub fn written() -> Option<Spent> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("wchar: "))?;
    Some(Spent::new("written", "bytes/job", bytes.parse().ok()?))
}

/// A process, as `/proc` tells of it; times in ticks of the clock.
struct Process {
    id: u64,
    parent: u64,
    own: u64,
    /// Of its children that have ended.
    ended: u64,
}

impl Process {
    fn read(id: &str) -> Option<Self> {
        let id: u64 = id.parse().ok()?;
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // A name may have spaces and brackets in it; it ends with the last bracket.
        let (begin, rest) = text.rsplit_once(')')?;
        if !begin.contains("(postgres") {
            return None;
        }
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Self {
            id,
            parent: number(1)?,
            own: number(11)? + number(12)?,
            ended: number(13)? + number(14)?,
        })
    }
}
