use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email", retries = 3)]
struct SendEmail;

fn main() {}
