use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(
    kind = SEND_EMAIL,
    queue("mail"),
    priority = "high",
    max_attempts = 5u8,
    lease = 5m,
    timeout = 20 minutes,
    backoff = exponential(1s..1h),
    unique = "to",
    version = "2",
    migrate = |from, payload| Ok(payload),
    crate = 1,
)]
struct SendEmail {
    to: String,
}

fn main() {}
