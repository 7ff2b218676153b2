//! What a key does, once somebody has said yes.

use leasehold::AsBackend;
use leasehold::manage::{self, Scope};

use crate::cli::By;
use crate::database::Session;
use crate::failure::Failure;
use crate::output;

/// It names what it is for: rows move while somebody thinks about the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Pause(String),
    Resume(String),
    Cancel { id: i64, hard: bool },
    Requeue(i64),
}

impl Action {
    pub(super) fn question(&self) -> String {
        match self {
            Self::Pause(queue) => format!("Pause the queue {}?", output::line(queue)),
            Self::Resume(queue) => format!("Resume the queue {}?", output::line(queue)),
            Self::Cancel { id, hard: false } => format!("Ask job {id} to stop?"),
            Self::Cancel { id, hard: true } => {
                format!("Cancel job {id} at once? The commit of its handler is refused.")
            }
            Self::Requeue(id) => format!("Put job {id} back to ready?"),
        }
    }

    /// Does it; what is to be said then.
    pub(super) fn take<C: AsBackend>(&self, session: &mut Session<'_, C>, by: &By) -> String {
        self.outcome(session, by).unwrap_or_else(|failure| failure.to_string())
    }

    fn outcome<C: AsBackend>(&self, session: &mut Session<'_, C>, by: &By) -> Result<String, Failure> {
        let (conn, schema) = (&mut *session.conn, &session.schema);
        Ok(match self {
            Self::Pause(queue) => {
                manage::pause(conn, schema, Scope::Queue(queue), &by.name(), "paused in top")?;
                format!("the queue {} is paused", output::line(queue))
            }
            Self::Resume(queue) => match manage::resume(conn, schema, Scope::Queue(queue), &by.name())? {
                true => format!("the queue {} is resumed", output::line(queue)),
                false => "not paused by itself: everything is, which `resume --all` ends".to_owned(),
            },
            Self::Cancel { id, hard } => {
                let how = match hard {
                    true => manage::Cancel::Hard,
                    false => manage::Cancel::Soft,
                };
                match (
                    manage::cancel(conn, schema, *id, how, &by.name(), "cancelled in top")?,
                    hard,
                ) {
                    (true, true) => format!("job {id} is cancelled"),
                    (true, false) => format!("job {id} is asked to stop"),
                    (false, _) => format!("job {id} has ended"),
                }
            }
            Self::Requeue(id) => {
                manage::requeue(conn, schema, *id, &by.name())?;
                format!("job {id} is ready again")
            }
        })
    }
}
