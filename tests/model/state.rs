//! The states: rows, what a crash would leave of them, and what workers believe.

/// Stands for a lease token. Only equality counts, so tokens are numbered by where they stand in a state.
pub(crate) type Token = u8;

/// No token: the row was never claimed.
pub(crate) const NONE: Token = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Ready,
    Running,
    Completed,
    Discarded,
    Cancelled,
}

impl State {
    pub(crate) fn is_terminal(self) -> bool {
        !matches!(self, Self::Ready | Self::Running)
    }
}

/// A job's row, and the business rows that commits wrote with it: one database, so a crash takes both back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) state: State,
    pub(crate) generation: u8,
    pub(crate) token: Token,
    /// The process that claimed it; written only where a fence asks for it.
    pub(crate) process: u8,
    /// The lease has run out.
    pub(crate) expired: bool,
    pub(crate) cancel_requested: bool,
    /// How many commits wrote their business row.
    pub(crate) effects: u8,
    /// The token of the lease whose holder wrote the last one.
    pub(crate) effect_by: Token,
    /// For the rules alone: the claims, of those that a worker still remembers, that this row went through. A bit for
    /// each token.
    pub(crate) past: u16,
}

impl Row {
    pub(crate) const ENQUEUED: Self = Self {
        state: State::Ready,
        generation: 0,
        token: NONE,
        process: 0,
        expired: false,
        cancel_requested: false,
        effects: 0,
        effect_by: NONE,
        past: 0,
    };

    /// Whether the claim with this token is part of the row's history, as the database has it now.
    pub(crate) fn remembers(&self, token: Token) -> bool {
        self.past & (1 << token) != 0
    }
}

/// How far a worker has come with a lease that it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Believes that the job is its own.
    Held,
    /// The completion passed, the COMMIT is on its way, and the transaction has the row locked. `given_up`: the worker
    /// was told already that nothing was committed.
    Sent { given_up: bool },
    /// That transaction is over, and its answer was lost.
    InDoubt,
    /// Was told "committed".
    Acknowledged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    pub(crate) generation: u8,
    pub(crate) token: Token,
    pub(crate) stage: Stage,
}

/// A thread that claims, runs and commits, somewhere else than the database: no crash of that changes what it believes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    /// The token of a claim whose answer was lost.
    pub(crate) claiming: Token,
    /// For each job.
    pub(crate) leases: Vec<Option<Lease>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct System {
    /// What sessions see, a row for each job.
    pub(crate) db: Vec<Row>,
    /// What is left after a crash, a promotion, or the return of an older file.
    pub(crate) disk: Vec<Row>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) crashes: u8,
    /// A commit landed of which its worker had been told that it did not.
    pub(crate) landed_after_all: bool,
}

impl System {
    pub(crate) fn new(jobs: usize, workers: usize) -> Self {
        let worker = Worker {
            claiming: NONE,
            leases: vec![None; jobs],
        };
        Self {
            db: vec![Row::ENQUEUED; jobs],
            disk: vec![Row::ENQUEUED; jobs],
            workers: vec![worker; workers],
            crashes: 0,
            landed_after_all: false,
        }
    }

    /// The leases that workers remember, with the job and the worker.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (usize, usize, Lease)> + '_ {
        let of = |worker: usize| move |(job, lease): (usize, &Option<Lease>)| lease.map(|lease| (worker, job, lease));
        let workers = self.workers.iter().enumerate();
        workers.flat_map(move |(worker, it)| it.leases.iter().enumerate().filter_map(of(worker)))
    }

    /// Whether a commit under way has the job's row locked.
    pub(crate) fn is_locked(&self, job: usize) -> bool {
        let lease = |worker: &Worker| worker.leases[job].map(|lease| lease.stage);
        self.workers
            .iter()
            .any(|worker| matches!(lease(worker), Some(Stage::Sent { .. })))
    }

    /// A token that nobody has or remembers: what a random one is.
    pub(crate) fn fresh_token(&self) -> Token {
        1 + self.tokens().max().unwrap_or(NONE)
    }

    fn tokens(&self) -> impl Iterator<Item = Token> + '_ {
        let rows = self.db.iter().chain(&self.disk);
        let of_workers = self.workers.iter().map(|worker| worker.claiming);
        let of_leases = self.leases().map(|(_, _, lease)| lease.token);
        of_workers
            .chain(of_leases)
            .chain(rows.flat_map(|row| [row.token, row.effect_by]))
    }

    /// The same state with its tokens numbered in the order in which they stand in it, so that two states that differ in
    /// numbers alone are one. What no worker remembers is left out of the rows' past.
    pub(crate) fn canonical(mut self) -> Self {
        let (mut names, mut last) = ([NONE; 16], NONE);
        let mut remembered = 0;
        for (at, token) in self.tokens().enumerate() {
            if at < self.workers.len() + self.leases().count() {
                remembered |= 1_u16 << token;
            }
            if token != NONE && names[usize::from(token)] == NONE {
                last += 1;
                names[usize::from(token)] = last;
            }
        }
        let name = |token: &mut Token| *token = names[usize::from(*token)];
        for row in self.db.iter_mut().chain(&mut self.disk) {
            name(&mut row.token);
            name(&mut row.effect_by);
            let old = row.past & remembered & !1;
            row.past = (1..16_u8)
                .filter(|&token| old & (1 << token) != 0)
                .fold(0, |past, token| past | 1 << names[usize::from(token)]);
        }
        for worker in &mut self.workers {
            name(&mut worker.claiming);
            for lease in worker.leases.iter_mut().flatten() {
                name(&mut lease.token);
            }
        }
        self
    }
}
