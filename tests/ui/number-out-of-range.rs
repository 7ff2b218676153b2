use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "too-small", priority = -32769, max_attempts = 0, version = 0)]
struct TooSmall;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "too-large", priority = 32768, max_attempts = 1_000_001, version = 2_147_483_648)]
struct TooLarge;

fn main() {}
