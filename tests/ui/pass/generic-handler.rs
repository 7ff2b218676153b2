use diesel::SqliteConnection;
use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

impl<C: Backend, A> Handler<C, A> for Greet {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &A) -> Outcome<'j> {
        lease.finish()
    }
}

fn runs_greet<C: Backend, A: Send + Sync + 'static>(worker: Worker<C, A>) -> Worker<C, A> {
    worker.register::<Greet>()
}

fn main() {
    runs_greet(Worker::<SqliteConnection, _>::new("jobs.db", ()));
    #[cfg(feature = "postgres")]
    runs_greet(Worker::<diesel::PgConnection, _>::new("postgres:///jobs", "any state".to_owned()));
}
