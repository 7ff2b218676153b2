use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, Outcome, Receipt};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "part")]
struct Part;

struct App;

impl<C: Backend> Handler<C, App> for Greet {
    fn run<'j>(self, mut lease: LeaseGuard<'j, C>, app: &App) -> Outcome<'j> {
        look(&mut lease)?;
        Part.run(lease, app)
    }
}

impl<C: Backend> Handler<C, App> for Part {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &App) -> Outcome<'j> {
        Ok(end(lease)?)
    }
}

fn look<C: Backend>(lease: &mut LeaseGuard<'_, C>) -> Result<(), JobError> {
    lease.read(|_| Ok::<_, JobError>(()))
}

fn end<C: Backend>(lease: LeaseGuard<'_, C>) -> Result<Receipt<'_>, JobError> {
    lease.finish()
}

fn main() {}
