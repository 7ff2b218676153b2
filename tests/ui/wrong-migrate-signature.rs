use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "a", version = 2, migrate = without_version)]
struct WithoutVersion;

fn without_version(payload: serde_json::Value) -> Result<serde_json::Value, String> {
    Ok(payload)
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "b", version = 2, migrate = without_a_text)]
struct WithoutAText;

fn without_a_text(_: u32, payload: serde_json::Value) -> Result<serde_json::Value, ()> {
    Ok(payload)
}

fn main() {}
