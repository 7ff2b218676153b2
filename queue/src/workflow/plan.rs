//! A workflow as it is written.

use super::{Inner, Node, WorkflowError};
use crate::backend::{Backend, NewWait};
use crate::enqueue::{Enqueued, Jobs};
use crate::schema::Schema;

/// Waits in one statement.
const CHUNK: usize = 1000;

/// Checked: every job can begin.
pub(super) struct Plan {
    jobs: Jobs,
    nodes: Vec<Node>,
    /// A name for each node.
    names: Vec<String>,
}

impl Plan {
    pub(super) fn new(inner: Inner) -> Result<Self, WorkflowError> {
        let Inner {
            mut jobs,
            nodes,
            mistake,
        } = inner;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        let kinds = jobs.kinds().map(str::to_owned);
        let named = nodes
            .iter()
            .zip(kinds)
            .map(|(node, kind)| node.name.clone().unwrap_or(kind));
        let names: Vec<String> = named.collect();
        if let Some(stuck) = first_stuck(&nodes) {
            let name = names[stuck].clone();
            return Err(WorkflowError::Cycle { name });
        }
        let mut awaited = vec![false; nodes.len()];
        nodes
            .iter()
            .flat_map(|node| &node.after)
            .for_each(|index| awaited[*index] = true);
        for ((row, node), awaited) in jobs.rows_mut().zip(&nodes).zip(awaited) {
            row.waits = !node.after.is_empty();
            row.awaited = awaited;
        }
        Ok(Self { jobs, nodes, names })
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
            .nodes
            .iter()
            .zip(&ids)
            .flat_map(|(node, job_id)| node.after.iter().map(|on| (*job_id, *on, node.anyway)))
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

/// A job that waits for itself; found by letting the others go, as their ends would.
fn first_stuck(nodes: &[Node]) -> Option<usize> {
    let mut left: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        node.after.iter().for_each(|on| waiting[*on].push(index));
    }
    let mut free: Vec<usize> = (0..nodes.len()).filter(|index| left[*index] == 0).collect();
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
    for _ in 0..nodes.len() {
        stuck = *nodes[stuck].after.iter().find(|on| left[**on] > 0)?;
    }
    Some(stuck)
}
