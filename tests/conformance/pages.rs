//! Job types that are unique by one of their two fields, each in another way.

use std::time::Duration;

use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::support::*;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A job type with two fields, unique by the first one in some way.
macro_rules! pages {
    ($($name:ident $kind:literal ($($unique:tt)*);)+) => { $(
        #[derive(Debug, Serialize, Deserialize, Job)]
        #[job(kind = $kind, backoff = "fixed(1h)", unique($($unique)*))]
        pub(crate) struct $name {
            page: String,
            text: String,
        }

        impl $name {
            pub(crate) fn new(page: &str, text: &str) -> Self {
                Self { page: page.to_owned(), text: text.to_owned() }
            }
        }

        impl<C: Backend> Handler<C> for $name {
            fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
                match self.text.as_str() {
                    "fail" => Err(JobError::retry("told to")),
                    "discard" => Err(JobError::discard("told to")),
                    "cancel" => lease.cancel("told to"),
                    _ => lease.finish(),
                }
            }
        }
    )+ };
}
pages! {
    Plain "plain" (by = "page");
    Whole "whole" ();
    PerQueue "per-queue" (by = "page", per_queue);
    Replaced "replaced" (by = "page", on_conflict = "replace");
    Rescheduled "rescheduled" (by = "page", on_conflict = "reschedule");
    Both "both" (by = "page", on_conflict = "replace, reschedule");
    Rejected "rejected" (by = "page", on_conflict = "reject");
    WhileOpen "while-open" (by = "page", states = "ready, running", on_conflict = "replace");
    WhileReady "while-ready" (by = "page", states = "ready");
    Hourly "hourly" (by = "page", within = "1h");
    Kept "kept" (by = "page", states = "ready, completed, cancelled");
    Failed "failed" (by = "page", states = "ready, discarded");
}

/// Claims the one job of the kind.
#[track_caller]
pub(crate) fn claim_one<C: Backend>(conn: &mut C, kind: &str) -> leasehold::__private::Fence {
    let (rows, token) = claim_served(conn, &[served("default", kind, 1)], 1);
    fence_of(&rows[0], token)
}

/// Text, version, generation and whether it is scheduled or blocked, of the ready jobs.
pub(crate) fn ready<D: TestDb>(db: &mut D) -> Vec<String> {
    let text = "SELECT CAST(payload AS text) || ' v' || version || ' generation=' || generation \
        || CASE WHEN CAST(scheduled AS integer) = 1 THEN ' scheduled' ELSE '' END || coalesce(' by ' || blocked_by, '') \
        FROM leasehold.jobs WHERE state = 'ready' ORDER BY id";
    db.texts(text).into_iter().flatten().collect()
}
