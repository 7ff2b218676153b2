//! Jobs per second: enqueued, finished without a write, and committed with one insert; ours and the reference in turn.

use crate::jobs::Kind;
use crate::ours::{Batch, Work};
use crate::raw::shapes;
use crate::report::{OURS, RAW, Row};
use crate::rounds::{Case, Measured, run};
use crate::{Answer, Bar, Bench, Database, Extent, Options, Place, Report, Setting, ours};

const BENCH: &str = "throughput";

/// What is measured, as the report calls it.
pub mod what {
    /// One by one.
    pub const ENQUEUE: &str = "enqueue one by one";
    /// A thousand in a statement.
    pub const BULK: &str = "enqueue in bulk";
    /// Handlers that do nothing.
    pub const FINISH: &str = "finish";
    /// The same without any batching.
    pub const UNBATCHED: &str = "finish unbatched";
    /// Handlers that insert a row.
    pub const COMMIT: &str = "commit with one insert";
}

/// How many jobs the reference claims while others commit.
const CLAIMED_BESIDE: usize = 50;

/// What a measurement goes through, by the extent that was asked for.
struct Choices {
    enqueuing: &'static [usize],
    threads: &'static [usize],
    processes: &'static [usize],
    batches: &'static [usize],
    connections: &'static [usize],
    unbatched: &'static [usize],
}

fn choices(extent: Extent) -> Choices {
    match extent {
        Extent::Brief => Choices {
            enqueuing: &[2],
            threads: &[2],
            processes: &[2],
            batches: &[10],
            connections: &[2],
            unbatched: &[2],
        },
        Extent::Bars => Choices {
            enqueuing: &[1, 8],
            threads: &[8],
            processes: &[],
            batches: &[50],
            connections: &[2, 4],
            unbatched: &[4, 8],
        },
        Extent::Full => Choices {
            enqueuing: &[1, 8],
            threads: &[1, 2, 4, 8, 16],
            processes: &[2, 4],
            batches: &[10, 50, 200],
            connections: &[1, 2, 4, 8],
            unbatched: &[1, 2, 4, 8, 16],
        },
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
    let choices = choices(options.extent);
    let cases = Cases::<C> {
        place,
        cases: Vec::new(),
        backend: std::marker::PhantomData,
    };
    let cases = cases
        .enqueue(&choices)
        .finish(&choices)
        .unbatched(&choices)
        .commit(&choices);
    run(report, options, &cases.cases)
}

/// The lines of the bar that this bench measures.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    let ratio = |backend, what, setting: &Setting| report.ours_to_raw(backend, what, setting);
    let (any, batch) = (Setting::new(), Setting::new().with("batch", 50));
    let eight = Setting::new().with("threads", 8);
    let peers = "benches/peers";
    vec![
        Bar::at_least("no-op finish(), PostgreSQL: of the fastest peer", 1.3, None).note(peers),
        Bar::at_least("no-op finish(), PostgreSQL: of fang", 20.0, None).note(peers),
        Bar::at_least(
            "no-op finish(), PostgreSQL: of raw at the same batch",
            0.85,
            ratio("postgres", what::FINISH, &batch),
        )
        .note("batch 50, raw on its best number of connections"),
        Bar::at_least(
            "commit() with one insert, PostgreSQL, 8 threads: of raw",
            0.85,
            ratio("postgres", what::COMMIT, &eight),
        ),
        Bar::at_least("commit() with one insert, PostgreSQL: of fang's no-op", 1.5, None).note(peers),
        Bar::at_least("no batching at all: of the best peer", 1.0, None).note(peers),
        Bar::at_least("enqueue one by one, 8 threads: of fang", 1.0, None).note(peers),
        Bar::at_least("enqueue in bulk: of the fastest peer", 2.0, None).note(peers),
        Bar::at_least(
            "no-op finish(), SQLite: of raw at the same batch",
            0.8,
            ratio("sqlite", what::FINISH, &batch),
        )
        .note("batch 50"),
        Bar::at_least(
            "commit() with one insert, SQLite: of raw with the same commits",
            0.9,
            ratio("sqlite", what::COMMIT, &any),
        ),
    ]
}

struct Cases<'c, C> {
    place: &'c Place,
    cases: Vec<Case<'c>>,
    backend: std::marker::PhantomData<C>,
}

impl<'c, C: Bench> Cases<'c, C> {
    fn add(
        &mut self,
        what: &'static str,
        system: &str,
        setting: Setting,
        measure: impl Fn(usize) -> Answer<Measured> + 'c,
    ) {
        self.cases.push(Case {
            row: Row {
                bench: BENCH,
                what: what.to_owned(),
                system: system.to_owned(),
                backend: C::NAME,
                setting,
                unit: "jobs/s",
                values: Vec::new(),
            },
            measure: Box::new(measure),
        });
    }

    fn enqueue(mut self, choices: &Choices) -> Self {
        for &threads in choices.enqueuing {
            let setting = Setting::new().with("threads", threads);
            self.add(
                what::ENQUEUE,
                OURS,
                setting.clone(),
                enqueue::<C>(self.place, threads, false),
            );
            self.add(
                what::ENQUEUE,
                RAW,
                setting,
                enqueue_raw::<C>(self.place, threads, false),
            );
        }
        let setting = Setting::new().with("threads", 1);
        self.add(what::BULK, OURS, setting.clone(), enqueue::<C>(self.place, 1, true));
        self.add(what::BULK, RAW, setting, enqueue_raw::<C>(self.place, 1, true));
        self
    }

    fn finish(mut self, choices: &Choices) -> Self {
        for &batch in choices.batches {
            let setting = Setting::new().with("threads", 8).with("batch", batch);
            let measure = work::<C>(self.place, Kind::Finish, 1, 8, Batch::Fixed(batch));
            self.add(what::FINISH, OURS, setting, measure);
            self.finish_raw(what::FINISH, batch, choices.connections);
        }
        self.adaptive(what::FINISH, Kind::Finish, choices);
        self
    }

    fn unbatched(mut self, choices: &Choices) -> Self {
        for &threads in choices.unbatched {
            let measure = work::<C>(self.place, Kind::Finish, 1, threads, Batch::Unbatched);
            self.add(what::UNBATCHED, OURS, Setting::new().with("threads", threads), measure);
        }
        self.finish_raw(what::UNBATCHED, 1, choices.unbatched);
        self
    }

    fn commit(mut self, choices: &Choices) -> Self {
        self.adaptive(what::COMMIT, Kind::Commit, choices);
        let place = self.place;
        let connections = if C::ONE_WRITER { &[1] } else { choices.threads };
        for &connections in connections {
            let setting = Setting::new().with("threads", connections);
            self.add(what::COMMIT, RAW, setting, move |jobs| {
                let database = Database::<C>::filled(place, Kind::Commit, jobs)?;
                let (url, like) = (&database.url, Kind::Commit.plain()?);
                let took = if C::ONE_WRITER {
                    shapes::commit_alone::<C::Raw>(url, &like, jobs, CLAIMED_BESIDE)?
                } else {
                    shapes::commit::<C::Raw>(url, &like, jobs, connections, CLAIMED_BESIDE)?
                };
                Ok(Measured::new(jobs, took))
            });
        }
        self
    }

    /// As the library does it by itself.
    fn adaptive(&mut self, what: &'static str, kind: Kind, choices: &Choices) {
        for &threads in choices.threads {
            let measure = work::<C>(self.place, kind, 1, threads, Batch::Adaptive);
            self.add(what, OURS, Setting::new().with("threads", threads), measure);
        }
        for &processes in choices.processes {
            let measure = work::<C>(self.place, kind, processes, 8, Batch::Adaptive);
            let setting = Setting::new().with("threads", 8).with("processes", processes);
            self.add(what, OURS, setting, measure);
        }
    }

    fn finish_raw(&mut self, what: &'static str, batch: usize, connections: &[usize]) {
        let place = self.place;
        let connections = if C::ONE_WRITER { &[1] } else { connections };
        for &connections in connections {
            let mut setting = Setting::new().with("threads", connections);
            if batch > 1 {
                setting = setting.with("batch", batch);
            }
            self.add(what, RAW, setting, move |jobs| {
                let database = Database::<C>::filled(place, Kind::Finish, jobs)?;
                let like = Kind::Finish.plain()?;
                let took = shapes::finish::<C::Raw>(&database.url, &like, jobs, connections, batch)?;
                Ok(Measured::new(jobs, took))
            });
        }
    }
}

fn work<C: Bench>(
    place: &Place,
    kind: Kind,
    processes: usize,
    threads: usize,
    batch: Batch,
) -> impl Fn(usize) -> Answer<Measured> {
    let work = Work { kind, threads, batch };
    move |jobs| {
        let mut database = Database::<C>::filled(place, kind, jobs)?;
        let span = ours::work_in::<C>(processes, &database.url, &work)?;
        if usize::try_from(span.jobs)? != jobs {
            return Err(format!("{} of {jobs} jobs were completed", span.jobs).into());
        }
        let mut measured = Measured::new(jobs, span.took());
        if batch != Batch::Unbatched {
            let name = match kind {
                Kind::Finish => "finish: jobs per claim",
                Kind::Commit => "commit: jobs per claim",
            };
            measured
                .beside
                .push((name.to_owned(), mean(jobs, database.conn.claims()?), "jobs"));
            if let (Some(transactions), Kind::Finish) = (database.conn.completing_transactions()?, kind) {
                let completion = mean(jobs, transactions);
                measured
                    .beside
                    .push(("finish: jobs per completion".to_owned(), completion, "jobs"));
            }
        }
        Ok(measured)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of jobs")]
fn mean(jobs: usize, statements: i64) -> f64 {
    jobs as f64 / statements as f64
}

fn enqueue<C: Bench>(place: &Place, threads: usize, bulk: bool) -> impl Fn(usize) -> Answer<Measured> {
    move |jobs| {
        let database = Database::<C>::new(place)?;
        let each = jobs.div_ceil(threads);
        let took = shapes::together(threads, |_| {
            let mut conn = C::establish(&database.url)?;
            Ok(move || match bulk {
                true => Kind::Finish.enqueue(&mut conn, each),
                false => Kind::Finish.enqueue_each(&mut conn, each),
            })
        })?;
        Ok(Measured::new(each * threads, took))
    }
}

fn enqueue_raw<C: Bench>(place: &Place, threads: usize, bulk: bool) -> impl Fn(usize) -> Answer<Measured> {
    move |jobs| {
        let database = Database::<C>::new(place)?;
        let (like, jobs) = (Kind::Finish.plain()?, jobs.next_multiple_of(threads));
        let took = shapes::enqueue::<C::Raw>(&database.url, &like, jobs, threads, bulk)?;
        Ok(Measured::new(jobs, took))
    }
}
