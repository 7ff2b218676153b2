//! The append-only log of one worker process: what it was told of its jobs, and what it was told of its commits.
//!
//! Each line is written by one `write`, so that a kill leaves whole lines: what is in the log was told.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold::__private::Fence;
use leasehold::Refusal;
use uuid::Uuid;

/// The log of a process, as it writes it.
#[derive(Debug, Clone)]
pub(crate) struct Log(Arc<Mutex<File>>);

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A handler began under this fence, with this attempt out of so many.
    Claimed(Fence, u32, u32),
    /// Its commit was told as done.
    Committed(Fence),
    /// Its commit was refused: the reason, and the generation that it names.
    Refused(Fence, String, Option<i64>),
    /// It failed otherwise, or its commit's outcome was left open.
    Failed(Fence),
    /// A connection came out of the pool at another depth than it should.
    Depth(Fence, u32),
}

impl Log {
    /// Opens the log of a process.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Adds a line.
    pub(crate) fn add(&self, line: &Line) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(format!("{}\n", line.text()).as_bytes()) {
            log::error!("the log cannot be written: {error}");
        }
    }
}

/// All lines of a log.
///
/// # Errors
///
/// The file system's, and a line that is none.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<Line>> {
    let text = std::fs::read_to_string(path)?;
    text.lines()
        .map(|line| Line::parse(line).ok_or_else(|| std::io::Error::other(format!("not a line of a log: {line}"))))
        .collect()
}

impl Line {
    /// How a refused commit is told.
    #[must_use]
    pub(crate) fn refused(fence: Fence, refusal: &Refusal) -> Self {
        let (reason, generation) = match refusal {
            Refusal::Lost { generation } => ("lost", Some(*generation)),
            Refusal::DurabilityLoss { generation } => ("durability-loss", Some(*generation)),
            Refusal::Expired => ("expired", None),
            Refusal::TimedOut => ("timed-out", None),
            Refusal::Missing => ("missing", None),
            Refusal::AlreadyFinished { .. } => ("finished", None),
            Refusal::Cancelled => ("cancelled", None),
            _ => ("other", None),
        };
        Self::Refused(fence, reason.to_owned(), generation)
    }

    fn text(&self) -> String {
        let of = |fence: &Fence| format!("{} {} {}", fence.id, fence.generation, fence.lease_token.simple());
        match self {
            Self::Claimed(fence, attempt, most) => format!("claimed {} {attempt} {most}", of(fence)),
            Self::Committed(fence) => format!("committed {}", of(fence)),
            Self::Refused(fence, reason, generation) => {
                format!("refused {} {reason} {}", of(fence), generation.unwrap_or(-1))
            }
            Self::Failed(fence) => format!("failed {}", of(fence)),
            Self::Depth(fence, depth) => format!("depth {} {depth}", of(fence)),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [word, id, generation, token, rest @ ..] = words.as_slice() else {
            return None;
        };
        let fence = Fence {
            id: id.parse().ok()?,
            generation: generation.parse().ok()?,
            lease_token: Uuid::try_parse(token).ok()?,
        };
        Some(match (*word, rest) {
            ("claimed", [attempt, most]) => Self::Claimed(fence, attempt.parse().ok()?, most.parse().ok()?),
            ("committed", []) => Self::Committed(fence),
            ("refused", [reason, at]) => {
                let at: i64 = at.parse().ok()?;
                Self::Refused(fence, (*reason).to_owned(), (at >= 0).then_some(at))
            }
            ("failed", []) => Self::Failed(fence),
            ("depth", [depth]) => Self::Depth(fence, depth.parse().ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_comes_back_as_it_was_written() {
        let fence = Fence {
            id: 4,
            generation: 7,
            lease_token: Uuid::from_u128(11),
        };
        for line in [
            Line::Claimed(fence, 3, 20),
            Line::Committed(fence),
            Line::refused(fence, &Refusal::Lost { generation: 8 }),
            Line::refused(fence, &Refusal::Missing),
            Line::Failed(fence),
            Line::Depth(fence, 2),
        ] {
            assert_eq!(Line::parse(&line.text()), Some(line));
        }
    }
}
