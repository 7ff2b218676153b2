//! When a schedule fires: a cron text in a time zone.

use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use croner::Cron;

use super::ScheduleError;
use super::cron::{Pattern, parse};

/// No zone is further from UTC, and none changes its clock by more.
const TWO_DAYS_S: i64 = 2 * 24 * 3600;

/// The years 0 to 9999, and a little more for what lies around a time. Near the ends of its own calendar, which are further
/// away, the clock of a zone cannot be asked without a panic.
const CALENDAR_S: std::ops::RangeInclusive<i64> = -62_167_219_200 - 2 * TWO_DAYS_S..=253_402_300_799 + 2 * TWO_DAYS_S;

/// A cron text in a time zone. Times are milliseconds since 1970, fire times whole seconds.
///
/// Times that are named one by one happen once on each day that is meant: one that the clock leaves out comes when the
/// clock goes on, and one that the clock repeats comes the first time. An interval (with `*`, a step or a range in its
/// second, minute or hour) goes by what the clock shows: what is left out does not come, and what is repeated comes twice.
#[derive(Debug)]
pub(crate) struct Times {
    cron: Cron,
    zone: Tz,
    is_named: bool,
}

impl Times {
    pub(crate) fn new(cron: &str, zone: &str) -> Result<Self, ScheduleError> {
        let Pattern { cron, is_named } = parse(cron).map_err(|source| ScheduleError::Cron {
            text: cron.to_owned(),
            source,
        })?;
        let zone = zone
            .parse()
            .map_err(|_| ScheduleError::Zone { zone: zone.to_owned() })?;
        Ok(Self { cron, zone, is_named })
    }

    /// The first fire time after `ms`; `None` at the end of the calendar.
    pub(crate) fn after(&self, ms: i64) -> Option<i64> {
        let from = self.local(ms.div_euclid(1000))?;
        if !self.is_named {
            let next = self.cron.find_next_occurrence(&from, false).ok()?;
            return Some(next.timestamp() * 1000);
        }
        let mut civil = from.naive_local();
        loop {
            civil = self.cron.find_next_occurrence(&civil, false).ok()?;
            let at = self.instant(civil)?;
            if at > from.timestamp() {
                return Some(at * 1000);
            }
        }
    }

    /// The last fire time that is not after `ms`.
    pub(crate) fn until(&self, ms: i64) -> Option<i64> {
        let to = self.local(ms.div_euclid(1000))?;
        if !self.is_named {
            let last = self.cron.find_previous_occurrence(&to, true).ok()?;
            return Some(last.timestamp() * 1000);
        }
        // When the clock goes back, the same time or a later one was shown before.
        let mut civil = self.local(to.timestamp() + TWO_DAYS_S)?.naive_local();
        loop {
            civil = self.cron.find_previous_occurrence(&civil, false).ok()?;
            let at = self.instant(civil)?;
            if at <= to.timestamp() {
                return Some(at * 1000);
            }
        }
    }

    fn local(&self, seconds: i64) -> Option<DateTime<Tz>> {
        if !CALENDAR_S.contains(&seconds) {
            return None;
        }
        Some(DateTime::from_timestamp(seconds, 0)?.with_timezone(&self.zone))
    }

    /// When the clock shows this for the first time; in a gap, when it goes on.
    fn instant(&self, civil: NaiveDateTime) -> Option<i64> {
        match self.zone.from_local_datetime(&civil) {
            LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => Some(at.timestamp()),
            LocalResult::None => self.end_of_gap(civil),
        }
    }

    fn end_of_gap(&self, civil: NaiveDateTime) -> Option<i64> {
        let near = civil.and_utc().timestamp();
        let (mut before, mut after) = (near - TWO_DAYS_S, near + TWO_DAYS_S);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self.local(middle)?.naive_local() < civil {
                before = middle;
            } else {
                after = middle;
            }
        }
        Some(after)
    }
}

#[cfg(test)]
mod tests;
