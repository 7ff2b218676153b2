//! A workflow as it is written.

use super::{Inner, Node, WorkflowError};
use crate::backend::{Backend, NewWait};
use crate::enqueue::{Enqueued, Jobs};
use crate::schema::Schema;

/// Waits in one statement.
const CHUNK: usize = 1000;

/// Checked: every step can begin.
pub(super) struct Plan {
    jobs: Jobs,
    steps: Vec<Node>,
    /// A name for each step.
    names: Vec<String>,
}

impl Plan {
    pub(super) fn new(inner: Inner) -> Result<Self, WorkflowError> {
        let Inner {
            mut jobs,
            steps,
            mistake,
        } = inner;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        let kinds = jobs.kinds().map(str::to_owned);
        let named = steps
            .iter()
            .zip(kinds)
            .map(|(step, kind)| step.name.clone().unwrap_or(kind));
        let names: Vec<String> = named.collect();
        if let Some(stuck) = first_stuck(&steps) {
            let name = names[stuck].clone();
            return Err(WorkflowError::Cycle { name });
        }
        let mut awaited = vec![false; steps.len()];
        steps
            .iter()
            .flat_map(|step| &step.after)
            .for_each(|index| awaited[*index] = true);
        for ((row, step), awaited) in jobs.rows_mut().zip(&steps).zip(awaited) {
            row.waits = !step.after.is_empty();
            row.awaited = awaited;
        }
        Ok(Self { jobs, steps, names })
    }

    /// Inserts the jobs, and then what each waits for: a wait names two jobs. Nobody sees the one without the other, since
    /// all is one transaction.
    pub(super) fn insert<C: Backend>(self, conn: &mut C, schema: &Schema) -> Result<Vec<i64>, WorkflowError> {
        let enqueued = self.jobs.insert(conn, schema)?;
        if let Some(index) = enqueued.iter().position(|answer| !answer.is_new()) {
            let (name, id) = (self.names[index].clone(), enqueued[index].id());
            return Err(WorkflowError::Exists { name, id });
        }
        let ids: Vec<i64> = enqueued.iter().map(Enqueued::id).collect();
        let waits: Vec<NewWait> = self
            .steps
            .iter()
            .zip(&ids)
            .flat_map(|(step, job_id)| step.after.iter().map(|on| (*job_id, *on, step.anyway)))
            .map(|(job_id, on, anyway)| NewWait {
                job_id,
                on_job_id: ids[on],
                name: self.names[on].clone(),
                anyway,
            })
            .collect();
        for chunk in waits.chunks(CHUNK) {
            conn.insert_waits(schema, chunk)?;
        }
        Ok(ids)
    }
}

/// A step that waits for itself; found by letting steps go as their jobs would be.
fn first_stuck(steps: &[Node]) -> Option<usize> {
    let mut left: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        step.after.iter().for_each(|on| waiting[*on].push(index));
    }
    let mut free: Vec<usize> = (0..steps.len()).filter(|index| left[*index] == 0).collect();
    while let Some(done) = free.pop() {
        for index in &waiting[done] {
            left[*index] -= 1;
            if left[*index] == 0 {
                free.push(*index);
            }
        }
    }
    // Of those that are left, some only wait for a cycle; one in it is found by going back often enough.
    let mut stuck = left.iter().position(|left| *left > 0)?;
    for _ in 0..steps.len() {
        stuck = *steps[stuck].after.iter().find(|on| left[**on] > 0)?;
    }
    Some(stuck)
}
