use leasehold_tests::postgres::Cluster;

use crate::Failure;
use crate::database::cluster;
use crate::session::Session;
use crate::stage::{Demonstration, Played, Stage, notes};

use super::JOBS;

pub(crate) const IT: Demonstration = Demonstration {
    name: "token_reuse",
    lesson: "what a crash forgets is given out again: a generation alone is no fence",
    facts: "S0-12, after a crash",
    play,
};

/// Nothing but a durable commit flushes within the demonstration: the WAL writer sleeps for as long as it can.
const FORGETFUL: [&str; 4] = [
    "synchronous_commit=off",
    "wal_writer_delay=10s",
    "autovacuum=off",
    "bgwriter_delay=10s",
];

const TRIES: u32 = 10;
const ROW: &str = "SELECT id, state, generation, lease_token FROM jobs";
const FORGOTTEN: &str = "id = 1, state = ready, generation = 0, lease_token = null";

/// Claims with a token that is drawn for this call; random ones have no place in a transcript.
fn claim(token: &str, durable: &str) -> String {
    format!(
        "WITH picked AS MATERIALIZED (
    SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs SET state = 'running', generation = generation + 1, lease_token = '{token}'
FROM picked WHERE jobs.id = picked.id RETURNING jobs.id, jobs.generation{durable}"
    )
}

fn complete(token: &str) -> String {
    format!(
        "UPDATE jobs SET state = 'completed'
WHERE id = 1 AND generation = 1 AND state = 'running'{token}"
    )
}

fn play(stage: &mut Stage<'_>) -> Played {
    let mut server = cluster(&FORGETFUL)?;
    stage.moves_to(server.url());
    let [mut a, mut c] = stage.opens_as(["A", "C"], "A, C and later B, on a server of their own that crashes")?;
    a.says("SHOW synchronous_commit")?;
    c.says("SET synchronous_commit = on")?;
    c.says(JOBS)?;
    drop((a, c));
    forgotten(stage, &mut server)?;
    told_twice(stage)?;
    kept(
        stage,
        &mut server,
        "With synchronous_commit = on, the claim is there after the crash, and nobody else gets the job.",
        Some("SET synchronous_commit = on"),
        "",
    )?;
    kept(
        stage,
        &mut server,
        "A claim that turns it on for its own transaction is as good, whatever the session says.",
        None,
        ",\n    set_config('synchronous_commit', 'on', true) AS synchronous_commit",
    )
}

fn crash(server: &mut Cluster) {
    server.crash();
    server.start_again();
}

/// A is told that it has the job, and the crash forgets it.
fn forgotten(stage: &Stage<'_>, server: &mut Cluster) -> Played {
    // A claim that the WAL writer happened to flush is none that was lost: it wakes every ten seconds.
    for _ in 0..TRIES {
        let [mut a, mut c] = stage.sessions(["A", "C"])?;
        let mut page = fresh_job(&mut c)?;
        page.push(a.tells(&claim("token-a", ""))?);
        crash(server);
        let [mut c] = stage.sessions(["C"])?;
        let after = c.tells(ROW)?;
        if after.ends_with(FORGOTTEN) {
            println!("{}", page.join("\n"));
            notes(
                "The server crashes (an immediate stop) and comes back. A has been told that it has the job,\nand the row knows nothing of it.",
            );
            println!("{after}");
            return Ok(());
        }
    }
    Err(format!("the claim was flushed in each of {TRIES} crashes").into())
}

/// One job that nobody has had, and that a crash does not forget.
fn fresh_job(c: &mut Session) -> Result<Vec<String>, Failure> {
    let statements = [
        "SET synchronous_commit = on",
        "DELETE FROM jobs",
        "INSERT INTO jobs (id) VALUES (1)",
    ];
    // Only the last is part of the story.
    let told: Result<Vec<_>, _> = statements.iter().map(|statement| c.tells(statement)).collect();
    Ok(told?.split_off(2))
}

fn told_twice(stage: &Stage<'_>) -> Played {
    let [mut a, mut b] = stage.sessions(["A", "B"])?;
    notes("B claims, and is told what A was told: generation 1.");
    b.says(&claim("token-b", ""))?;
    notes("A comes back. By the generation alone it passes, and B's work is lost; so A takes it back.");
    a.says("BEGIN")?;
    a.says(&complete(""))?;
    a.says("ROLLBACK")?;
    notes("The token, drawn at random for each claim, has never been given to two.");
    a.says(&complete(" AND lease_token = 'token-a'"))?;
    b.says(&complete(" AND lease_token = 'token-b'"))
}

/// A claim that the crash does not forget.
fn kept(stage: &Stage<'_>, server: &mut Cluster, note: &str, before: Option<&str>, durable: &str) -> Played {
    notes(note);
    let [mut a, mut c] = stage.sessions(["A", "C"])?;
    println!("{}", fresh_job(&mut c)?.join("\n"));
    if let Some(before) = before {
        a.says(before)?;
    }
    a.says(&claim("token-a", durable))?;
    notes("The server crashes and comes back.");
    crash(server);
    let [mut a, mut b] = stage.sessions(["A", "B"])?;
    b.says(ROW)?;
    b.says(&claim("token-b", ""))?;
    a.says(&complete(" AND lease_token = 'token-a'"))
}
