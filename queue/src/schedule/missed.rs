use std::fmt;
use std::str::FromStr;

use super::ScheduleError;

const MOST: u32 = 1000;

/// What becomes of fire times at which no program ran.
///
/// Those before the last one that is due are missed, and the last one itself when it is more than a minute late. What was
/// due while the schedule was paused is not missed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// They are left out: `missed = "skip"`.
    Skip,
    /// One job for all of them, with the last one's fire time: `missed = "run once"`.
    #[default]
    RunOnce,
    /// A job for each, or for the last so many: `missed = "run all(10)"`.
    RunAll {
        /// 1 to 1,000.
        at_most: u32,
    },
}

impl Missed {
    pub(super) fn check(self) -> Result<(), ScheduleError> {
        match self {
            Self::RunAll { at_most } if !(1..=MOST).contains(&at_most) => Err(ScheduleError::Missed {
                given: self.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// How many fire times are fired at once, at the most.
    pub(super) fn at_most(self) -> usize {
        match self {
            Self::Skip | Self::RunOnce => 1,
            Self::RunAll { at_most } => at_most.min(MOST) as usize,
        }
    }
}

/// As it is stored.
impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::RunOnce => f.write_str("run once"),
            Self::RunAll { at_most } => write!(f, "run all({at_most})"),
        }
    }
}

impl FromStr for Missed {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let number = || text.strip_prefix("run all(")?.strip_suffix(')')?.parse().ok();
        let missed = match text {
            "skip" => Some(Self::Skip),
            "run once" => Some(Self::RunOnce),
            _ => number().map(|at_most| Self::RunAll { at_most }),
        };
        let missed = missed.ok_or_else(|| ScheduleError::Missed { given: text.to_owned() })?;
        missed.check()?;
        Ok(missed)
    }
}
