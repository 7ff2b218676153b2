//! The texts of a job's way from enqueue to completion, for the benches: they run them without the library around, and so
//! measure what it adds. Values are bound as the functions beside each text bind them.

/// What is run at each step, in this order; the tables have their default name.
#[derive(Debug, Clone)]
pub struct HotPath {
    /// Settings of a connection that claims and finishes.
    pub session: &'static str,
    /// Makes a connection hear of enqueues: it listens, and marks itself as idle for as long as it is open.
    pub listen: String,
    /// Inserts jobs.
    pub insert: &'static str,
    /// Inserts one job, where another statement does that.
    pub insert_one: Option<&'static str>,
    /// Finds what can be claimed, where a statement of its own does that.
    pub candidates: Option<&'static str>,
    /// Claims jobs.
    pub claim: &'static str,
    /// Renews leases.
    pub heartbeat: &'static str,
    /// Completes jobs, in one transaction.
    pub finish: Vec<&'static str>,
    /// Begins the transaction of a commit.
    pub begin_commit: String,
    /// Takes the mark of a commit away, where a statement of its own does that.
    pub unmark: Option<&'static str>,
    /// Completes a job in the transaction of a commit.
    pub complete: Vec<&'static str>,
}
