//! `schedules`: what is enqueued at given times.

use leasehold::AsBackend;
use leasehold::schedule::{self, ScheduleRecord};
use serde::Serialize;

use crate::cli::Schedules;
use crate::database::Session;
use crate::failure::Failure;
use crate::output::{self, Done};

#[derive(Serialize)]
struct Shown {
    name: String,
    cron: String,
    zone: String,
    missed: String,
    kind: String,
    queue: String,
    paused: bool,
    /// The next times, the first of which may have passed.
    next_at: Vec<String>,
    last_at: Option<String>,
}

impl Shown {
    fn of(schedule: &ScheduleRecord, next: u8) -> Result<Self, Failure> {
        Ok(Self {
            name: schedule.name.clone(),
            cron: schedule.cron.clone(),
            zone: schedule.zone.clone(),
            missed: schedule.missed.clone(),
            kind: schedule.kind.clone(),
            queue: schedule.queue.clone(),
            paused: schedule.paused,
            next_at: schedule
                .upcoming(usize::from(next))?
                .into_iter()
                .map(output::time)
                .collect(),
            last_at: schedule.last_at.map(output::time),
        })
    }
}

pub(super) fn run<C: AsBackend>(session: &mut Session<'_, C>, what: &Schedules) -> Result<(), Failure> {
    match what {
        Schedules::List { next } => list(session, *next),
        Schedules::Pause { name, by } => {
            let there = schedule::pause(session.conn, &session.schema, name, &by.name())?;
            done(session, there, name, "paused")
        }
        Schedules::Resume { name, by } => {
            let there = schedule::resume(session.conn, &session.schema, name, &by.name())?;
            done(session, there, name, "resumed")
        }
        Schedules::Remove { name, by, sure } => {
            let there = schedule::find(session.conn, &session.schema, name)?.is_some();
            if there && sure.dry_run {
                let done = Done {
                    did: "removed",
                    count: 1,
                    more: false,
                    dry_run: true,
                };
                return session.output.done(&done, "schedule");
            }
            if there {
                output::confirm(sure, &format!("Remove the schedule {}?", output::line(name)))?;
                schedule::remove(session.conn, &session.schema, name, &by.name())?;
            }
            done(session, there, name, "removed")
        }
    }
}

fn list<C: AsBackend>(session: &mut Session<'_, C>, next: u8) -> Result<(), Failure> {
    let schedules = schedule::list(session.conn, &session.schema)?;
    let schedules: Vec<Shown> = schedules
        .iter()
        .map(|schedule| Shown::of(schedule, next))
        .collect::<Result<_, _>>()?;
    session.output.say(&schedules, |schedules| {
        let rows = schedules.iter().map(|schedule| {
            [
                output::line(&schedule.name),
                output::line(&schedule.kind),
                output::line(&schedule.cron),
                output::line(&schedule.zone),
                if schedule.paused {
                    "paused".to_owned()
                } else {
                    schedule.next_at.join(" ")
                },
                schedule.last_at.clone().unwrap_or_default(),
            ]
        });
        output::table(["NAME", "KIND", "CRON", "ZONE", "NEXT", "LAST"], rows)
    })
}

fn done<C>(session: &Session<'_, C>, there: bool, name: &str, did: &'static str) -> Result<(), Failure> {
    if !there {
        return Err(Failure::Nothing(format!("there is no schedule `{name}`")));
    }
    session.output.done(
        &Done {
            did,
            count: 1,
            more: false,
            dry_run: false,
        },
        "schedule",
    )
}
