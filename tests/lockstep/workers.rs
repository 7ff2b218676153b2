//! What workers and their maintenance do, by the library's own statements.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::__private::*;
use leasehold::inspect::State;
use leasehold::{Backend, Schema};
use leasehold_tests::TestDb;
use uuid::Uuid;

use crate::answer::{Answer, TakenBack, Written};
use crate::operation::{Serves, What, queue_name};
use crate::real::Real;

impl<D: TestDb> Real<'_, D> {
    pub(crate) fn claim(&mut self, serves: Serves, limit: i64, begun: bool, oldest: bool) -> Answer {
        let lease_token = Uuid::new_v4();
        self.tokens.push(lease_token);
        let request = ClaimRequest {
            serves: &served(serves),
            limit,
            lease_token,
            worker: Uuid::new_v4(),
            begun,
            counted: &[],
            oldest,
            behind: &[],
        };
        let rows = self.conn.claim(&self.schema, &request).unwrap();
        let claimed = rows.iter().map(|row| (self.job(row.id), row.generation, row.attempt));
        let mut claimed: Vec<_> = claimed.collect();
        claimed.sort_unstable();
        Answer::Claimed(claimed)
    }

    pub(crate) fn look(&mut self, serves: Serves) -> Answer {
        let waiting = self.conn.waiting(&self.schema, &served(serves), 1000).unwrap();
        Answer::Waiting {
            ready: waiting.ready,
            running: waiting.running,
            scheduled: waiting.scheduled,
            blocked: waiting.blocked,
            paused: waiting.paused,
            next: waiting.next_due_ms.is_some(),
        }
    }

    pub(crate) fn taken_back(&self, swept: Vec<Swept>) -> Answer {
        let taken = swept.into_iter().map(|row| TakenBack {
            job: self.job(row.id),
            generation: row.generation,
            attempt: row.attempt,
            begun: row.begun,
            state: row.state,
        });
        let mut taken: Vec<TakenBack> = taken.collect();
        taken.sort_unstable_by_key(|row| row.job);
        Answer::TakenBack(taken)
    }

    pub(crate) fn write_many(&mut self, what: &What, fences: &[Fence]) -> Answer {
        let (conn, schema) = (&mut self.conn, &self.schema);
        let accepted: Vec<(i64, bool)> = match what {
            What::Heartbeat => {
                let beats = conn.heartbeat(schema, fences).unwrap();
                assert!(beats.iter().all(|beat| beat.renewed), "nothing is locked");
                beats.iter().map(|beat| (beat.id, beat.cancel_requested)).collect()
            }
            _ => {
                let ids = match what {
                    What::Begin => conn.begin(schema, fences),
                    What::Finish => conn.finish(schema, fences),
                    _ => conn.release(schema, fences),
                };
                ids.unwrap().into_iter().map(|id| (id, false)).collect()
            }
        };
        let told = fences.iter().map(|fence| {
            let answer = accepted.iter().find(|(id, _)| *id == fence.id);
            let written = match answer {
                Some((_, true)) => Written::AskedToStop,
                Some(_) => Written::Yes,
                None => self.refused(fence),
            };
            (self.job(fence.id), written)
        });
        // Not lazily, for the refusals are read from the rows.
        let told: Vec<_> = told.collect();
        Answer::Fenced(told)
    }

    fn refused(&mut self, fence: &Fence) -> Written {
        let row = self.conn.ownership(&self.schema, fence.id).unwrap();
        Written::Refused(refusal(fence, row.as_ref()))
    }

    pub(crate) fn write_one(&mut self, what: &What, fence: &Fence) -> Answer {
        let (conn, schema) = (&mut self.conn, &self.schema);
        let note = |noted: bool, cause| {
            noted.then(|| AttemptError {
                cause,
                error: "noted".to_owned(),
            })
        };
        let accepted = match *what {
            What::PutBack {
                later,
                uses_attempt,
                takes_away,
                error,
            } => {
                let how = PutBack {
                    delay_ms: if later { 3_600_000 } else { 0 },
                    uses_attempt,
                    takes_away,
                    error: note(error, "error"),
                };
                conn.put_back(schema, fence, &how).unwrap() == 1
            }
            What::End {
                state,
                takes_away,
                error,
            } => {
                let how = End {
                    state: if state == State::Discarded {
                        "discarded"
                    } else {
                        "cancelled"
                    },
                    reason: Some("by its worker".to_owned()),
                    takes_away,
                    error: note(error, "panic"),
                };
                conn.end(schema, fence, &how).unwrap() == 1
            }
            What::Complete { strict } => commit(conn, schema, fence, strict),
            _ => unreachable!("a write of many"),
        };
        let written = if accepted { Written::Yes } else { self.refused(fence) };
        Answer::Fenced(vec![(self.job(fence.id), written)])
    }
}

/// Business row and completion in one transaction, as the runtime does; whether it was committed.
fn commit<C: Backend>(conn: &mut C, schema: &Schema, fence: &Fence, strict: bool) -> bool {
    conn.begin_commit(None, &ConnectionSettings::default()).unwrap();
    conn.batch_execute(&format!("INSERT INTO effects VALUES ({})", fence.id))
        .unwrap();
    let completed = conn.complete(schema, fence, strict).unwrap() == Completion::Completed;
    match completed {
        true => AnsiTransactionManager::commit_transaction(conn).unwrap(),
        false => AnsiTransactionManager::rollback_transaction(conn).unwrap(),
    }
    completed
}

pub(crate) fn served(serves: Serves) -> Vec<Served> {
    let all = serves.all().map(|(queue, kind)| Served {
        queue: queue_name(queue).to_owned(),
        kind: kind.name().to_owned(),
        version: 1,
    });
    all.collect()
}
