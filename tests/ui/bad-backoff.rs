use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", backoff = "random(1s..1h)")]
struct UnknownShape;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "b", backoff = "exponential(1h..1s)")]
struct Backwards;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "c", backoff = "fixed(30)")]
struct NoUnit;

fn main() {}
