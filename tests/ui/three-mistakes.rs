use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email", lease = "5 minutes", max_attempts = 0, retries = 3)]
struct SendEmail;

fn enqueue<J: Job>(_: J) {}

fn main() {
    // The type is a job all the same, so its uses add no mistake.
    enqueue(SendEmail);
    println!("{}", SendEmail::KIND);
}
