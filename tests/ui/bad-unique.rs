use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email", unique(by = "too, to, to"))]
struct SendEmail {
    to: String,
    subject: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "clean", unique(fields = "scope"))]
struct Clean {
    scope: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "sync", unique(by = "shard"))]
enum Sync {
    Shard { shard: u32 },
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "poll", unique(per_queue = true, states = "running, done", within = "0s", on_conflict = "ignore"))]
struct Poll;

fn main() {}
