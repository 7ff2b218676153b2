//! The rows that a claim takes, against a plain filter over all rows.

use std::cmp::Reverse;

use leasehold::__private::*;
use leasehold::Schema;
use leasehold_tests::{TestDb, conformance};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use uuid::Uuid;

use crate::view;

/// What a claim may look at.
#[derive(Debug, Clone)]
struct Row {
    queue: &'static str,
    kind: &'static str,
    version: i32,
    standing: Standing,
    priority: i16,
    /// Minutes after a time long past.
    due: i64,
    generation: i64,
    attempt: i32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    Ready,
    Scheduled,
    BehindALimit,
    BehindJobs,
    Running,
}

const STANDINGS: [Standing; 5] = [
    Standing::Ready,
    Standing::Scheduled,
    Standing::BehindALimit,
    Standing::BehindJobs,
    Standing::Running,
];
const QUEUES: [&str; 3] = ["a", "b", "a b"];
const KINDS: [&str; 3] = ["x", "y", "xy"];
const VERSIONS: [i32; 3] = [1, 2, i32::MAX];
const PRIORITIES: [i16; 5] = [i16::MIN, -1, 0, 1, i16::MAX];
/// The last two can be swept, and not claimed.
const GENERATIONS: [i64; 4] = [0, i64::MAX - 3, i64::MAX - 2, i64::MAX - 1];
const ATTEMPTS: [i32; 3] = [0, i32::MAX - 1, i32::MAX];

#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    pauses: Vec<(&'static str, &'static str)>,
    serves: Vec<Served>,
    limit: i64,
    oldest: bool,
}

impl Case {
    /// The places of the rows that claims may take, in their order.
    fn expected(&self) -> Vec<usize> {
        let paused = |scope, name| self.pauses.contains(&(scope, name));
        let mut places: Vec<usize> = (0..self.rows.len()).collect();
        places.retain(|place| {
            let row = &self.rows[*place];
            let served = self
                .serves
                .iter()
                .any(|served| (&*served.queue, &*served.kind, served.version) == (row.queue, row.kind, row.version));
            served
                && row.standing == Standing::Ready
                && !(paused("all", "") || paused("queue", row.queue) || paused("kind", row.kind))
                && row.generation < i64::MAX - 2
                && row.attempt < i32::MAX
        });
        places.sort_by_key(|place| {
            let row = &self.rows[*place];
            let priority = if self.oldest { 0 } else { row.priority };
            (Reverse(priority), row.due, *place)
        });
        places
    }
}

impl Row {
    fn values<D: TestDb>(&self, id: usize) -> String {
        let flag = |is: bool| {
            if D::BACKEND == "sqlite" {
                u8::from(is).to_string()
            } else {
                is.to_string()
            }
        };
        let (state, worker, until) = match self.standing {
            Standing::Running => ("running", format!("'{}'", Uuid::nil()), view::at::<D>(0)),
            _ => ("ready", "NULL".to_owned(), "NULL".to_owned()),
        };
        let blocked_by = match self.standing {
            Standing::BehindALimit => "'limit'",
            Standing::BehindJobs => "'jobs'",
            _ => "NULL",
        };
        format!(
            "({id}, '{}', '{}', {}, '{{}}', '{state}', {}, {}, {}, {blocked_by}, {}, {}, {worker}, {worker}, {until}, 5, 60000, {})",
            self.queue,
            self.kind,
            self.version,
            self.priority,
            view::at::<D>(60 * self.due),
            flag(self.standing == Standing::Scheduled),
            self.generation,
            self.attempt,
            view::at::<D>(0),
        )
    }
}

fn fill<D: TestDb>(db: &mut D, case: &Case) {
    db.sql("DELETE FROM leasehold.jobs; DELETE FROM leasehold.pauses");
    for (chunk, rows) in case.rows.chunks(500).enumerate() {
        let rows = rows
            .iter()
            .enumerate()
            .map(|(place, row)| row.values::<D>(500 * chunk + place));
        let rows: Vec<String> = rows.collect();
        let overriding = if D::BACKEND == "sqlite" {
            ""
        } else {
            "OVERRIDING SYSTEM VALUE"
        };
        db.sql(&format!(
            "INSERT INTO leasehold.jobs (id, queue, kind, version, payload, state, priority, run_at, scheduled, blocked_by,
                generation, attempt, worker, lease_token, lease_until, max_attempts, lease_ms, created_at)
             {overriding} VALUES {}",
            rows.join(", ")
        ));
    }
    for (scope, name) in &case.pauses {
        let at = view::at::<D>(0);
        db.sql(&format!(
            "INSERT INTO leasehold.pauses (scope, name, at, by, reason) VALUES ('{scope}', '{name}', {at}, '', '')"
        ));
    }
}

/// Claims again and again until there is nothing, and compares each claim with what was next.
fn compare<D: TestDb>(db: &mut D, conn: &mut D::Connection, case: &Case) -> Result<(), TestCaseError> {
    fill(db, case);
    let mut rest = &case.expected()[..];
    loop {
        let request = ClaimRequest {
            serves: &case.serves,
            limit: case.limit,
            lease_token: Uuid::new_v4(),
            worker: Uuid::new_v4(),
            begun: true,
            counted: &[],
            oldest: case.oldest,
            behind: &[],
        };
        let claimed = conn.claim(&Schema::default(), &request).unwrap();
        let mut claimed: Vec<usize> = claimed.iter().map(|row| usize::try_from(row.id).unwrap()).collect();
        claimed.sort_unstable();
        let next;
        (next, rest) = rest.split_at(rest.len().min(usize::try_from(case.limit).unwrap()));
        let mut next = next.to_vec();
        next.sort_unstable();
        prop_assert_eq!(&claimed, &next);
        if claimed.is_empty() {
            return Ok(());
        }
    }
}

fn every_served() -> Vec<Served> {
    let mut all = Vec::new();
    for (queue, kind, version) in product3(&QUEUES, &KINDS, &VERSIONS) {
        all.push(Served {
            queue: queue.to_owned(),
            kind: kind.to_owned(),
            version,
        });
    }
    all
}

fn product3<A: Copy, B: Copy, C: Copy>(a: &[A], b: &[B], c: &[C]) -> Vec<(A, B, C)> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b)));
    pairs.flat_map(|(a, b)| c.iter().map(move |c| (a, b, *c))).collect()
}

/// A row of every combination that the tables admit, in no order.
fn every_row() -> Vec<Row> {
    let mut rows = Vec::new();
    for (queue, kind, version) in product3(&QUEUES, &KINDS, &VERSIONS) {
        for (standing, generation, attempt) in product3(&STANDINGS, &GENERATIONS, &ATTEMPTS) {
            let mixed = rows.len() * 7919;
            rows.push(Row {
                queue,
                kind,
                version,
                standing,
                priority: PRIORITIES[mixed % PRIORITIES.len()],
                due: i64::try_from(mixed % 11).unwrap(),
                generation,
                attempt,
            });
        }
    }
    rows
}

fn row() -> impl Strategy<Value = Row> {
    let select = |all: &'static [&'static str]| prop::sample::select(all);
    let served = (select(&QUEUES), select(&KINDS), prop::sample::select(&VERSIONS[..]));
    let standing = prop_oneof![4 => Just(Standing::Ready), 1 => prop::sample::select(&STANDINGS[..])];
    let generation = prop_oneof![4 => Just(0), 1 => prop::sample::select(&GENERATIONS[..])];
    let attempt = prop_oneof![4 => Just(0), 1 => prop::sample::select(&ATTEMPTS[..])];
    let numbers = (prop::sample::select(&PRIORITIES[..]), 0..4_i64, generation, attempt);
    (served, standing, numbers).prop_map(
        |((queue, kind, version), standing, (priority, due, generation, attempt))| Row {
            queue,
            kind,
            version,
            standing,
            priority,
            due,
            generation,
            attempt,
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let pause = prop_oneof![
        1 => Just(("all", "")),
        3 => prop::sample::select(&QUEUES[..]).prop_map(|name| ("queue", name)),
        3 => prop::sample::select(&KINDS[..]).prop_map(|name| ("kind", name)),
    ];
    let pauses =
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::btree_set(pause, 1..3).prop_map(Vec::from_iter)];
    let serves = prop::sample::subsequence(every_served(), 0..27);
    let rows = prop::collection::vec(row(), 0..60);
    (rows, pauses, serves, 1..9_i64, prop::bool::weighted(0.3)).prop_map(|(rows, pauses, serves, limit, oldest)| Case {
        rows,
        pauses,
        serves,
        limit,
        oldest,
    })
}

fn prepared<D: TestDb>(db: &mut D) -> D::Connection {
    let mut conn: D::Connection = Connect::connect(&db.url(), &ConnectionSettings::default()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn
}

conformance!(
    fn claims_take_what_a_plain_filter_takes_of_every_combination(db: &mut Db) {
        let mut conn = prepared(db);
        for pauses in [
            vec![],
            vec![("queue", "a")],
            vec![("kind", "xy"), ("queue", "b")],
            vec![("all", "")],
        ] {
            for oldest in [false, true] {
                let case = Case {
                    rows: every_row(),
                    pauses: pauses.clone(),
                    serves: every_served(),
                    limit: 40,
                    oldest,
                };
                compare(db, &mut conn, &case).unwrap();
            }
        }
    }
);

conformance!(
    fn claims_take_what_a_plain_filter_takes_of_random_rows(db: &mut Db) {
        let mut conn = prepared(db);
        let cases = crate::cases(40);
        let mut runner = TestRunner::new(Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        });
        let both = std::cell::RefCell::new((db, &mut conn));
        let compared = runner.run(&case(), |case| {
            let (db, conn) = &mut *both.borrow_mut();
            compare(*db, *conn, &case)
        });
        match compared {
            Ok(()) => crate::report(&format!("claims on {}: {cases} tables of random rows", Db::BACKEND)),
            Err(TestError::Fail(difference, case)) => panic!("{difference}: {case:#?}"),
            Err(abort) => panic!("{abort}"),
        }
    }
);
