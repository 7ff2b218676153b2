use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", schedule(cron = "@daily"))]
struct NoDefault {}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "b", schedule(cron = "@daily", payload = number))]
struct Other {}

fn number() -> u8 {
    1
}

fn main() {}
