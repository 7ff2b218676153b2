use leasehold::{Backend, EnqueueError, Enqueued, Job};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

fn runs_on<C: Backend>() {}

fn enqueue(conn: &mut String) -> Result<Enqueued, EnqueueError> {
    Greet.enqueue(conn)
}

fn main() {
    runs_on::<String>();
}
