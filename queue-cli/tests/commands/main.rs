//! The program itself, on both backends.

use std::process::{Command, Output, Stdio};

use leasehold::{Backend, Handler, Job, JobError, LeaseGuard, Outcome, Worker};
use leasehold_tests::TestDb;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "postgres")]
mod bounds;
mod change;
mod look;
mod refuse;
mod screen;
#[cfg(feature = "serve")]
mod serve;
mod tables;
mod top;

/// Fails at its only attempt, with `error` as the text.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "mail", queue = "mail", max_attempts = 1)]
struct Mail {
    to: String,
    error: String,
}

impl<C: Backend> Handler<C, ()> for Mail {
    fn run<'j>(self, lease: LeaseGuard<'j, C>, (): &()) -> Outcome<'j> {
        match self.error.is_empty() {
            true => lease.finish(),
            false => Err(JobError::retry(self.error)),
        }
    }
}

/// At most one for each name.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "only", unique(by = "name"))]
struct Only {
    name: String,
}

fn mail(error: &str) -> Mail {
    Mail {
        to: "a secret address".to_owned(),
        error: error.to_owned(),
    }
}

/// Runs all that is ready.
fn work<Db: TestDb>(db: &Db) {
    Worker::<Db::Connection, _>::new(db.url(), ())
        .register::<Mail>()
        .run_until_empty()
        .expect("the worker runs");
}

/// What the program said.
struct Said {
    code: i32,
    out: String,
    error: String,
}

impl Said {
    #[track_caller]
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.error);
        self
    }

    /// Ended with `code` and says `text` on the standard error.
    #[track_caller]
    fn refused(&self, code: i32, text: &str) {
        assert_eq!(self.code, code, "{}{}", self.out, self.error);
        assert!(self.error.contains(text), "`{text}` is not in: {}", self.error);
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).expect("it writes UTF-8"),
            error: String::from_utf8(output.stderr).expect("it writes UTF-8"),
        }
    }
}

/// Runs the program on the test's database, without a terminal.
fn leasehold<Db: TestDb>(db: &Db, arguments: &[&str]) -> Said {
    program(&[&["--database", &db.url()], arguments].concat())
}

fn program(arguments: &[&str]) -> Said {
    Command::new(env!("CARGO_BIN_EXE_leasehold"))
        .args(arguments)
        .env_remove("LEASEHOLD_DATABASE_URL")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
        .into()
}
