use leasehold::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email", kind = "send-mail")]
struct InOneList;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "send-email", queue = "mail")]
#[job(queue = "post")]
struct InTwoLists;

fn main() {}
