use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "", queue = "two\nlines")]
struct Empty;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send\u{202E}liame")]
struct Reversed;

fn main() {}
