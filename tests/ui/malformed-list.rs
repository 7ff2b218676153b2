use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job("send-email")]
struct NoKey;

#[derive(Serialize, Deserialize, Job)]
#[job(kind: "send-email", queue = "mail" lease = "5m", timeout)]
struct NoEquals;

fn main() {}
