use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Default, Job)]
#[job(kind = "a", schedule(cron = "0 0 30 2 *", missed = "sometimes"))]
struct Never {}

#[derive(Serialize, Deserialize, Default, Job)]
#[job(kind = "b", schedule(cron = "0 25 * * *", every = "1h"))]
struct NoHour {}

#[derive(Serialize, Deserialize, Default, Job)]
#[job(kind = "c", schedule(zone = "Europe/Berlin"))]
struct NoCron {}

#[derive(Serialize, Deserialize, Default, Job)]
#[job(kind = "d", schedule = "@daily")]
struct NoList {}

fn main() {}
