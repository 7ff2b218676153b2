use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email")]
struct SendEmail {
    #[job(unique)]
    to: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "sync")]
enum Sync {
    #[job(queue = "slow")]
    Everything,
}

fn main() {}
