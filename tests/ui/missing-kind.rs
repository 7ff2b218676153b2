use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct NoAttribute;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail")]
struct NoKind;

#[derive(Serialize, Deserialize, Job)]
#[job = "no-options"]
struct NoOptions;

fn main() {}
