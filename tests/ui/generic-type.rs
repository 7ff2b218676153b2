use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "generic")]
struct Generic<T> {
    payload: T,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "borrowed")]
struct Borrowed<'a> {
    payload: &'a str,
}

fn enqueue<J: Job>(_: J) {}

fn main() {
    // The type is a job all the same, so its uses add no mistake.
    enqueue(Generic { payload: 1 });
}
