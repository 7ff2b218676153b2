//! What programs and people do, through the library's front, and the passing of time.

use std::time::Duration;

use leasehold::__private::*;
use leasehold::manage::{self, Cancel, Edit, EditError, RequeueError};
use leasehold::{Backend, EnqueueError, EnqueueOptions, Enqueued, Job};
use leasehold_tests::TestDb;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::operation::{Kind, New, Payload, Scope, What, queue_name};
use crate::real::Real;
use crate::view;

const HOUR: Duration = Duration::from_secs(3600);

macro_rules! job_type {
    ($name:ident, $($options:tt)*) => {
        #[derive(Serialize, Deserialize, Job)]
        #[job(lease = "1h", $($options)*)]
        pub(crate) struct $name {
            key: u8,
            text: u8,
        }

        impl From<Payload> for $name {
            fn from(Payload { key, text }: Payload) -> Self {
                Self { key, text }
            }
        }
    };
}
job_type!(Plain, kind = "plain");
job_type!(Only, kind = "only", unique(by = "key"));
job_type!(Narrow, kind = "narrow", concurrency(by = "key", max = 2));
job_type!(
    Both,
    kind = "both",
    unique(by = "key"),
    concurrency(by = "text", max = 1)
);

impl<D: TestDb> Real<'_, D> {
    pub(crate) fn enqueue(&mut self, new: &New) -> Answer {
        let mut options = EnqueueOptions::new()
            .queue(queue_name(new.queue))
            .priority(new.priority)
            .max_attempts(new.max_attempts.unsigned_abs())
            .on_conflict(new.on_conflict);
        if new.later {
            options = options.delay(HOUR);
        }
        if new.expires {
            options = options.expires(HOUR);
        }
        if new.within {
            options = options.unique_within(HOUR);
        }
        if let Some(key) = new.idempotency_key {
            options = options.idempotency_key(key.to_string());
        }
        match enqueue_kind(new, &mut self.conn, &options) {
            Ok(Enqueued::New { id }) => {
                self.ids.push(id);
                Answer::New(self.ids.len() - 1)
            }
            Ok(Enqueued::Existing { id }) => Answer::Existing(self.job(id)),
            Ok(Enqueued::Updated { id }) => Answer::Updated(self.job(id)),
            Err(EnqueueError::KeyConflict { id }) => Answer::KeyConflict(self.job(id)),
            Err(EnqueueError::UniqueConflict { id }) => Answer::UniqueConflict(self.job(id)),
            Err(error) => panic!("{new:?}: {error}"),
        }
    }

    pub(crate) fn passes(&mut self, what: &What, job: usize) -> Answer {
        let (id, past, now) = (self.ids[job], view::at::<D>(0), view::at::<D>(self.step));
        match what {
            What::LeaseEnds => {
                self.conn.expire_lease(&self.schema, id).unwrap();
            }
            What::ComesDue => self.db.sql(&format!(
                "UPDATE leasehold.jobs SET run_at = {now} WHERE id = {id} AND CAST(scheduled AS integer) = 1"
            )),
            What::GrowsTooOld => self.db.sql(&format!(
                "UPDATE leasehold.jobs SET expires_at = {past} WHERE id = {id} AND expires_at IS NOT NULL"
            )),
            What::KeyExpires { unique } => {
                let prefix = if *unique { "unique" } else { "idempotency" };
                self.db.sql(&format!(
                    "UPDATE leasehold.unique_keys SET expires_at = {past}
                     WHERE job_id = {id} AND expires_at IS NOT NULL AND key LIKE '{prefix}%'"
                ));
            }
            _ => unreachable!("no time passes"),
        }
        Answer::Done
    }

    pub(crate) fn manage(&mut self, what: &What, job: usize) -> Answer {
        let (conn, schema, id) = (&mut self.conn, &self.schema, self.ids[job]);
        match what {
            What::Cancel { hard } => {
                let how = if *hard { Cancel::Hard } else { Cancel::Soft };
                Answer::Was(manage::cancel(conn, schema, id, how, "ops", "by hand").unwrap())
            }
            What::Requeue => match manage::requeue(conn, schema, id, "ops") {
                Ok(()) => Answer::Done,
                Err(RequeueError::Missing { .. }) => Answer::Missing,
                Err(RequeueError::State { state, .. }) => Answer::State(state),
                Err(RequeueError::KeyTaken { .. }) => Answer::KeyTaken,
                Err(error) => panic!("{error}"),
            },
            What::Pause(scope) => {
                manage::pause(conn, schema, scope_of(*scope), "a test", "it may").unwrap();
                Answer::Done
            }
            What::Resume(scope) => Answer::Was(manage::resume(conn, schema, scope_of(*scope), "ops").unwrap()),
            What::Purge(state) => {
                let purged = manage::purge(conn, schema, *state, Duration::ZERO).unwrap();
                Answer::Count(usize::try_from(purged).unwrap())
            }
            What::Edit {
                behind,
                priority,
                later,
                payload,
            } => self.edit(id, *behind, *priority, *later, *payload),
            _ => unreachable!("not by hand"),
        }
    }

    fn edit(
        &mut self,
        id: i64,
        behind: i64,
        priority: Option<i16>,
        later: Option<bool>,
        payload: Option<Payload>,
    ) -> Answer {
        let Some(row) = self.conn.job(&self.schema, id).unwrap() else {
            return Answer::Missing;
        };
        let mut edit = Edit::new();
        if let Some(priority) = priority {
            edit = edit.priority(priority);
        }
        if let Some(later) = later {
            edit = edit.delay(if later { HOUR } else { Duration::ZERO });
        }
        if let Some(new) = payload {
            edit = match row.kind.as_str() {
                "plain" => edit.payload(&Plain::from(new)),
                "only" => edit.payload(&Only::from(new)),
                "narrow" => edit.payload(&Narrow::from(new)),
                _ => edit.payload(&Both::from(new)),
            }
            .unwrap();
        }
        match manage::edit(&mut self.conn, &self.schema, id, row.generation - behind, &edit, "ops") {
            Ok(generation) => Answer::Edited(generation),
            Err(EditError::Missing { .. }) => Answer::Missing,
            Err(EditError::State { state, .. }) => Answer::State(state),
            Err(EditError::Conflict { current, .. }) => Answer::Conflict(current),
            Err(EditError::Identity { .. }) => Answer::Identity,
            Err(error) => panic!("{error}"),
        }
    }
}

fn enqueue_kind<C: Backend>(new: &New, conn: &mut C, options: &EnqueueOptions) -> Result<Enqueued, EnqueueError> {
    match new.kind {
        Kind::Plain => Plain::from(new.payload).enqueue_with(conn, options),
        Kind::Only => Only::from(new.payload).enqueue_with(conn, options),
        Kind::Narrow => Narrow::from(new.payload).enqueue_with(conn, options),
        Kind::Both => Both::from(new.payload).enqueue_with(conn, options),
    }
}

fn scope_of(scope: Scope) -> manage::Scope<'static> {
    match scope {
        Scope::All => manage::Scope::All,
        Scope::Queue(queue) => manage::Scope::Queue(queue_name(queue)),
        Scope::Kind(kind) => manage::Scope::Kind(kind.name()),
    }
}
