//! A queue in which something is going on.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use leasehold::manage::{self, Scope};
use leasehold::schedule::{self, Schedule};
use leasehold::{
    Backend, Batch, EnqueueOptions, Handler, Job, JobError, LeaseGuard, Outcome, Running, Schema, Worker, Workflow,
};
use leasehold_tests::TestDb;
use leasehold_tests::jobs::SOON;
use leasehold_web::{Server, Serving, Site};
use serde::{Deserialize, Serialize};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Waits for the test's word.
#[derive(Clone)]
pub(crate) struct App {
    begun: Sender<()>,
    go: Receiver<()>,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email", queue = "mail", max_attempts = 2, backoff = "fixed(1ms)")]
struct SendEmail {
    to: String,
}

impl<C: Backend> Handler<C, App> for SendEmail {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, _: &App) -> Outcome<'j> {
        if !self.to.contains('@') {
            return Err(JobError::retry(format!("{:?} is not an address", self.to)));
        }
        lease.step("handed over", |key| Ok::<_, JobError>(key.to_owned()))?;
        lease.finish()
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "build-report", queue = "reports")]
struct BuildReport {
    part: String,
}

impl<C: Backend> Handler<C, App> for BuildReport {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &App) -> Outcome<'j> {
        lease.finish_result(&self.part.len())
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "encode-video", queue = "media")]
struct EncodeVideo {
    title: String,
}

impl<C: Backend> Handler<C, App> for EncodeVideo {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
        lease.progress(42, 100, "frames")?;
        let _ = app.begun.send(());
        let _ = app.go.recv();
        lease.finish()
    }
}

/// A site over a queue with work in it.
pub(crate) struct Fixture<C: Backend> {
    pub(crate) serving: Serving,
    /// One that was discarded after two attempts.
    pub(crate) failed: i64,
    /// And another.
    pub(crate) another: i64,
    /// One that runs.
    pub(crate) held: i64,
    /// One that waits.
    pub(crate) waiting: i64,
    /// The batch.
    pub(crate) batch: i64,
    /// One job of the workflow.
    pub(crate) flow: i64,
    running: Option<Running<C, App>>,
    _go: Sender<()>,
}

impl<C: Backend> Fixture<C> {
    pub(crate) fn new<D: TestDb<Connection = C>>(db: &mut D) -> Self {
        let mut conn = db.connect();
        leasehold::migrate(&mut conn).unwrap();
        let schema = Schema::default();
        let ((begun, begins), (go, word)) = (bounded(8), bounded(0));
        let app = App { begun, go: word };
        let [failed, another] = ["<script>alert(1)</script>", "nowhere"].map(|to| {
            let mail = SendEmail { to: to.to_owned() };
            mail.enqueue(&mut conn).unwrap().id()
        });
        past(db, &mut conn, &app);
        let batch = batch(&mut conn);
        let flow = flow(&mut conn);
        // Jobs that wait for others go on waiting: nobody here runs those.
        Worker::<C, _>::new(db.url(), app.clone())
            .patience(Duration::ZERO)
            .register::<SendEmail>()
            .run_until_empty()
            .unwrap();
        let video = EncodeVideo {
            title: "holiday".to_owned(),
        };
        let held = video.enqueue(&mut conn).unwrap().id();
        let running = Worker::<C, _>::new(db.url(), app)
            .threads(4)
            .register::<EncodeVideo>()
            .start()
            .unwrap();
        begins.recv_timeout(SOON).unwrap();
        leasehold_tests::eventually(SOON, "the worker has its row", || {
            db.integer("SELECT count(*) FROM leasehold.workers") > 0
        });
        db.sql("UPDATE leasehold.workers SET host = 'worker-1'");
        let later = EnqueueOptions::new().delay(Duration::from_secs(7200));
        let waiting = SendEmail {
            to: "ada@example.com".to_owned(),
        }
        .enqueue_with(&mut conn, &later)
        .unwrap()
        .id();
        for (name, cron) in [("nightly report", "0 3 * * *"), ("newsletter", "0 8 * * MON")] {
            let job = BuildReport { part: name.to_owned() };
            schedule::put(
                &mut conn,
                &schema,
                &Schedule::new(name, cron).zone("Europe/Berlin").job(&job),
            )
            .unwrap();
        }
        schedule::pause(&mut conn, &schema, "newsletter", "ops").unwrap();
        manage::pause(&mut conn, &schema, Scope::Queue("reports"), "Grace", "the disk is full").unwrap();
        let site = Site::builder().token(TOKEN).open::<C>(&db.url()).unwrap();
        let serving = Server::bind(site, "127.0.0.1:0".parse().unwrap())
            .unwrap()
            .start()
            .unwrap();
        Self {
            serving,
            failed,
            another,
            held,
            waiting,
            batch,
            flow,
            running: Some(running),
            _go: go,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.serving.address())
    }
}

impl<C: Backend> Drop for Fixture<C> {
    fn drop(&mut self) {
        drop(std::mem::replace(&mut self._go, bounded(0).0));
        if let Some(running) = self.running.take() {
            running.shutdown(SOON);
        }
    }
}

/// What ended within the last hour.
fn past<D: TestDb>(db: &mut D, conn: &mut D::Connection, app: &App) {
    let mails: Vec<SendEmail> = (0..240)
        .map(|n| SendEmail {
            to: format!("reader-{n}@example.com"),
        })
        .collect();
    SendEmail::enqueue_all(&mails, conn, &EnqueueOptions::new()).unwrap();
    Worker::<D::Connection, _>::new(db.url(), app.clone())
        .register::<SendEmail>()
        .run_until_empty()
        .unwrap();
    for minute in 0..60_i64 {
        let before = -(60_000 * minute + 500);
        // More in some minutes than in others, and slower.
        let which = format!("state = 'completed' AND (id * 7919) % 97 % 60 = {minute}");
        if db.integer(&format!("SELECT count(*) FROM leasehold.finished_jobs WHERE {which}")) > 0 {
            db.set_time("leasehold.finished_jobs", "finished_at", before, &which);
            db.set_time(
                "leasehold.finished_jobs",
                "run_at",
                before - 120 - 37 * (minute * minute % 19),
                &which,
            );
            db.set_time("leasehold.finished_jobs", "created_at", before - 900, &which);
        }
    }
}

fn batch<C: Backend>(conn: &mut C) -> i64 {
    let mails: Vec<SendEmail> = ["a@example.com", "b@example.com", "nobody"]
        .map(|to| SendEmail { to: to.to_owned() })
        .into();
    let reports: Vec<BuildReport> = ["north", "south"]
        .map(|part| BuildReport { part: part.to_owned() })
        .into();
    Batch::new("newsletter of december")
        .add_all(&mails, &EnqueueOptions::new())
        .add_all(&reports, &EnqueueOptions::new())
        .enqueue(conn)
        .unwrap()
        .id
}

fn flow<C: Backend>(conn: &mut C) -> i64 {
    let workflow = Workflow::new();
    let report = |part: &str| BuildReport { part: part.to_owned() };
    let first = workflow.add(&SendEmail {
        to: "start@example.com".to_owned(),
    });
    let parts = ["north", "south", "east"].map(|part| workflow.add(&report(part)).after(first).named(part));
    let sum = workflow.add(&report("sum")).after_all(parts);
    workflow
        .add(&SendEmail {
            to: "chief@example.com".to_owned(),
        })
        .after(sum);
    workflow.add(&report("cleanup")).after(sum).run_anyway();
    workflow.enqueue(conn).unwrap().id_of(sum)
}
