use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", lease = "30", timeout = "30m1h")]
struct NoDuration;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "b", lease = "500ms", timeout = "0s", expires = "0s")]
struct TooShort;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "c", lease = "366d", timeout = "99999999999999999999d")]
struct TooLong;

fn main() {}
