//! Which jobs are meant, and how sure somebody is.

use std::time::Duration;

use clap::{Args, ValueEnum};
use leasehold::inspect::{Filter, State};

use super::duration;

/// Which jobs are meant. Every option that is given must hold.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// In this state
    #[arg(long)]
    state: Option<StateName>,
    /// Of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Of this batch
    #[arg(long, value_name = "ID")]
    batch: Option<i64>,
    /// Ended, or enqueued if they have not ended, at least so long ago: `90s`, `2h 30m`, `7d`
    #[arg(long, value_name = "AGE", value_parser = duration)]
    older_than: Option<Duration>,
    /// With this text in the reason of their end or in an attempt's error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Which {
    pub(crate) fn is_all(&self) -> bool {
        self.state.is_none()
            && self.queue.is_none()
            && self.kind.is_none()
            && self.batch.is_none()
            && self.older_than.is_none()
            && self.error.is_none()
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.state.map(Into::into)
    }

    pub(crate) fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    pub(crate) fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        if let Some(state) = self.state() {
            filter = filter.state(state);
        }
        if let Some(queue) = &self.queue {
            filter = filter.queue(queue);
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind);
        }
        if let Some(batch) = self.batch {
            filter = filter.batch(batch);
        }
        if let Some(age) = self.older_than {
            filter = filter.older_than(age);
        }
        if let Some(error) = &self.error {
            filter = filter.error(error);
        }
        filter
    }
}

/// One job by its id, or those that the options tell.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// The job's id
    #[arg(conflicts_with_all = ["state", "queue", "kind", "batch", "older_than", "error"])]
    pub(crate) id: Option<i64>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All jobs that the command is for
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
}

/// What is done cannot be undone, or concerns many jobs.
#[derive(Debug, Args)]
pub(crate) struct Sure {
    /// Asks for no confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Says what would be done, and does nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateName {
    Ready,
    Running,
    Completed,
    Discarded,
    Cancelled,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Ready => Self::Ready,
            StateName::Running => Self::Running,
            StateName::Completed => Self::Completed,
            StateName::Discarded => Self::Discarded,
            StateName::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FinishedState {
    Completed,
    Discarded,
    Cancelled,
}

impl From<FinishedState> for State {
    fn from(name: FinishedState) -> Self {
        match name {
            FinishedState::Completed => Self::Completed,
            FinishedState::Discarded => Self::Discarded,
            FinishedState::Cancelled => Self::Cancelled,
        }
    }
}
