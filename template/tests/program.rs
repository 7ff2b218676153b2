//! The program as it runs in production: enqueue, work, stop by a signal.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::sql_types::Text;
use rustix::process::{Pid, Signal, kill_process};

fn program(database: &Path) -> Command {
    let mut program = Command::new(env!(concat!("CARGO_BIN_EXE_", env!("CARGO_PKG_NAME"))));
    program.arg("--database").arg(database);
    program
}

#[derive(QueryableByName)]
struct Greeting {
    #[diesel(sql_type = Text)]
    text: String,
}

/// The greetings in the database, once there is one; none after a minute without.
fn greetings(database: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut conn = SqliteConnection::establish(&database.display().to_string())?;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let greetings: Vec<Greeting> = diesel::sql_query("SELECT text FROM greetings").load(&mut conn)?;
        if !greetings.is_empty() || Instant::now() > deadline {
            return Ok(greetings.into_iter().map(|greeting| greeting.text).collect());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_job_is_done_and_a_signal_ends_the_program_well() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("app.db");
    assert!(program(&database).args(["greet", "you"]).status()?.success());
    let mut worker = program(&database).arg("work").spawn()?;
    let greetings = greetings(&database);
    kill_process(Pid::from_child(&worker), Signal::TERM)?;
    assert!(worker.wait()?.success());
    assert_eq!(greetings?, ["Hello, you!"]);
    Ok(())
}
