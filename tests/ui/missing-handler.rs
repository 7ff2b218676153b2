use diesel::SqliteConnection;
use leasehold::{Job, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "greet")]
struct Greet;

struct App;

fn main() {
    let _ = Worker::<SqliteConnection, _>::new("jobs.db", App).register::<Greet>();
}
