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

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "d", backoff = "list(1s, 10)")]
struct NoUnitInAList;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "e", backoff = "fixed(30s, jitter 200%)")]
struct TooMuchJitter;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "f", backoff = in_seconds)]
struct WrongFunction;

fn in_seconds(attempt: u32) -> u64 {
    attempt.into()
}

fn main() {}
