//! Why a command did not do what it was asked to, and how the process ends then.

use std::io;
use std::process::ExitCode;

use leasehold::error::SchemaNameError;
use leasehold::inspect::State;
use leasehold::manage::{EditError, RequeueError};
use leasehold::migrate::MigrateError;
use leasehold::schedule::ScheduleError;

use crate::output;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The check found something; it is on the standard output.
    #[error("")]
    Found,
    #[error("{0}")]
    Nothing(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Schema(#[from] SchemaNameError),
    #[error("cannot connect to the database: {0}")]
    Connect(#[from] diesel::ConnectionError),
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error("the database: {0}")]
    Database(#[from] diesel::result::Error),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Failure {
    pub(crate) fn no_job(id: i64) -> Self {
        Self::Nothing(format!("there is no job {id}: it may have been purged"))
    }

    pub(crate) fn wrong_state(id: i64, state: State, needed: &str) -> Self {
        Self::Refused(format!("job {id} is {state}: {needed}"))
    }

    /// Says it on the standard error.
    pub(crate) fn tell(&self) -> ExitCode {
        let text = self.to_string();
        // Whoever reads the output has had enough of it.
        let is_closed = matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe);
        if !text.is_empty() && !is_closed {
            output::complain(&format!("leasehold: {text}"));
        }
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Found | Self::Nothing(_) => 1,
            Self::Usage(_) | Self::Schema(_) => 2,
            Self::Schedule(ScheduleError::Database(_)) => 4,
            Self::Refused(_) | Self::Schedule(_) => 3,
            Self::Connect(_) | Self::Migrate(_) | Self::Database(_) => 4,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => 5,
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

impl From<RequeueError> for Failure {
    fn from(error: RequeueError) -> Self {
        match error {
            RequeueError::Missing { .. } => Self::Nothing(error.to_string()),
            RequeueError::Database(error) => Self::Database(error),
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Missing { .. } => Self::Nothing(error.to_string()),
            EditError::Database(error) => Self::Database(error),
            _ => Self::Refused(error.to_string()),
        }
    }
}
