//! Each operation by the library's own statements.

use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::TestDb;
use uuid::Uuid;

use crate::answer::Answer;
use crate::model::{self, Target};
use crate::operation::What;
use crate::people::{Both, Narrow};
use crate::view;
use crate::workers::served;

pub(crate) struct Real<'db, D: TestDb> {
    pub(crate) db: &'db mut D,
    pub(crate) conn: D::Connection,
    pub(crate) schema: Schema,
    /// Of the jobs, in the order of their enqueue.
    pub(crate) ids: Vec<i64>,
    /// Of the claims, in their order.
    pub(crate) tokens: Vec<Uuid>,
    pub(crate) step: i64,
}

impl<'db, D: TestDb> Real<'db, D> {
    pub(crate) fn new(db: &'db mut D) -> Self {
        let mut conn: D::Connection = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
        leasehold::migrate(&mut conn).unwrap();
        db.sql("CREATE TABLE effects (job bigint NOT NULL)");
        Self {
            db,
            conn,
            schema: Schema::default(),
            ids: Vec::new(),
            tokens: Vec::new(),
            step: 0,
        }
    }

    /// Empty again.
    pub(crate) fn clear(&mut self) {
        let tables = ["jobs", "finished_jobs", "job_errors", "unique_keys", "pauses"];
        let texts = tables.map(|table| format!("DELETE FROM leasehold.{table}; "));
        self.db.sql(&format!("{} DELETE FROM effects", texts.concat()));
        self.ids.clear();
        self.tokens.clear();
        self.step = 0;
    }

    pub(crate) fn view(&mut self) -> Vec<String> {
        view::settle_times(self.db, self.step);
        let mut lines = Vec::new();
        for line in view::rows(self.db) {
            let parts: Vec<&str> = line.splitn(6, '|').collect();
            let token = self.tokens.iter().position(|token| token.to_string() == parts[4]);
            let token = token.map_or("-".to_owned(), |token| token.to_string());
            let job = self.job(parts[0].parse().unwrap());
            lines.push(format!(
                "{job}|{}|{}|{}|{token}|{}",
                parts[1], parts[2], parts[3], parts[5]
            ));
        }
        for line in view::errors(self.db) {
            let (id, rest) = line.split_once('|').unwrap();
            lines.push(format!("{}|{rest}", self.job(id.parse().unwrap())));
        }
        lines.sort_unstable();
        lines
    }

    pub(crate) fn job(&self, id: i64) -> usize {
        self.ids
            .iter()
            .position(|other| *other == id)
            .expect("no other job is there")
    }

    fn fence(&self, fence: &model::Fence) -> Fence {
        Fence {
            id: self.ids[fence.job],
            generation: fence.generation,
            lease_token: fence.token.map_or_else(Uuid::new_v4, |token| self.tokens[token]),
        }
    }

    pub(crate) fn apply(&mut self, what: &What, target: &Target) -> Answer {
        self.step += 1;
        let fences: Vec<Fence> = target.fences.iter().map(|fence| self.fence(fence)).collect();
        match what {
            What::Enqueue(new) => self.enqueue(new),
            What::Claim {
                serves,
                limit,
                begun,
                oldest,
            } => self.claim(*serves, *limit, *begun, *oldest),
            What::FindClaimed => {
                let rows = self.conn.find_claimed(&self.schema, fences[0].lease_token).unwrap();
                let mut jobs: Vec<usize> = rows.iter().map(|row| self.job(row.id)).collect();
                jobs.sort_unstable();
                Answer::Found(jobs)
            }
            What::Look(serves) => self.look(*serves),
            What::Begin | What::Heartbeat | What::Finish | What::Release => self.write_many(what, &fences),
            What::Complete { .. } | What::PutBack { .. } | What::End { .. } => self.write_one(what, &fences[0]),
            What::Sweep { limit } => {
                let swept = self.conn.sweep(&self.schema, *limit).unwrap();
                self.taken_back(swept)
            }
            What::SweepKeys => Answer::Count(self.conn.sweep_keys(&self.schema, 1000).unwrap()),
            What::DiscardExpired => {
                let discarded = self.conn.discard_expired(&self.schema, 1000).unwrap();
                self.taken_back(discarded)
            }
            What::Promote(serves) => Answer::Count(self.conn.promote(&self.schema, &served(*serves), 1000).unwrap()),
            What::Admit => {
                let limits = [limit_of::<Narrow>(), limit_of::<Both>()];
                admit_all(&mut self.conn, &self.schema, &limits).unwrap();
                Answer::Done
            }
            What::LeaseEnds | What::ComesDue | What::GrowsTooOld | What::KeyExpires { .. } => {
                self.passes(what, target.job)
            }
            What::Cancel { .. }
            | What::Requeue
            | What::Edit { .. }
            | What::Pause(_)
            | What::Resume(_)
            | What::Purge(_) => self.manage(what, target.job),
        }
    }
}
