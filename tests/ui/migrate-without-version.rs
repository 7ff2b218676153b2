use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", migrate = upgrade)]
struct NoVersion;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "b", version = 1, migrate = upgrade)]
struct FirstVersion;

fn upgrade(_: u32, payload: serde_json::Value) -> Result<serde_json::Value, String> {
    Ok(payload)
}

fn main() {}
