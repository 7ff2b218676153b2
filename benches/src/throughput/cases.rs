//! Each measurement: a database with jobs, and what is done to them.

use std::marker::PhantomData;

use super::{BENCH, Choices, what};
use crate::jobs::Kind;
use crate::ours::{self, Batch, Work};
use crate::raw::shapes;
use crate::report::{OURS, RAW, Row};
use crate::rounds::{Case, Measured};
use crate::{Answer, Bench, Database, Place, Setting};

/// How many jobs the reference claims while others commit.
const CLAIMED_BESIDE: usize = 50;

/// What is to be measured on one backend.
pub(super) struct Cases<'c, C> {
    place: &'c Place,
    pub(super) cases: Vec<Case<'c>>,
    backend: PhantomData<C>,
}

impl<'c, C: Bench> Cases<'c, C> {
    pub(super) fn new(place: &'c Place) -> Self {
        Self {
            place,
            cases: Vec::new(),
            backend: PhantomData,
        }
    }

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

    pub(super) fn enqueue(mut self, choices: &Choices) -> Self {
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

    pub(super) fn finish(mut self, choices: &Choices) -> Self {
        for &batch in choices.batches {
            let setting = Setting::new().with("threads", 8).with("batch", batch);
            let measure = work::<C>(self.place, Kind::Finish, 1, 8, Batch::Fixed(batch));
            self.add(what::FINISH, OURS, setting, measure);
            self.finish_raw(what::FINISH, batch, choices.connections);
        }
        self.adaptive(what::FINISH, Kind::Finish, choices);
        for &processes in choices.processes {
            let measure = work::<C>(self.place, Kind::Finish, processes, 8, Batch::Adaptive);
            let setting = Setting::new().with("threads", 8).with("processes", processes);
            self.add(what::PROCESSES, OURS, setting, measure);
        }
        self
    }

    pub(super) fn unbatched(mut self, choices: &Choices) -> Self {
        for &threads in choices.unbatched {
            let measure = work::<C>(self.place, Kind::Finish, 1, threads, Batch::Unbatched);
            self.add(what::UNBATCHED, OURS, Setting::new().with("threads", threads), measure);
        }
        self.finish_raw(what::UNBATCHED, 1, choices.unbatched);
        self
    }

    pub(super) fn commit(mut self, choices: &Choices) -> Self {
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
                Kind::Finish => what::FINISH_CLAIM,
                Kind::Commit => what::COMMIT_CLAIM,
            };
            measured
                .beside
                .push((name.to_owned(), mean(jobs, database.conn.claims()?), "jobs"));
            if let (Some(transactions), Kind::Finish) = (database.conn.completing_transactions()?, kind) {
                let completion = mean(jobs, transactions);
                measured.beside.push((what::COMPLETION.to_owned(), completion, "jobs"));
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
