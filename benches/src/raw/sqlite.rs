//! The statements on SQLite. Everything that is bound is bound here.

use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::__private::{Fence, HotPath, sqlite_hot_path};

use super::sqlite3::{Connection, Statement, Value};
use super::{Claim, Claimed, Client, Plain, Purpose};
use crate::Answer;

/// How often the reference looks whether another connection has committed.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A unique key's states by default: ready and running.
const OPEN: i64 = 3;

/// A connection with the statements prepared.
#[expect(missing_debug_implementations, reason = "handles of SQLite's")]
pub struct Sqlite {
    insert: Statement,
    candidates: Statement,
    claim: Statement,
    heartbeat: Statement,
    /// Changes when another connection has committed.
    version: Statement,
    seen: i64,
    complete: Vec<Statement>,
    write: Statement,
    begin: Statement,
    commit: Statement,
    begin_commit: String,
    unmark: Option<Statement>,
    // Last: statements go before their connection.
    conn: Connection,
}

impl Client for Sqlite {
    fn open(url: &str, _: Purpose) -> Answer<Self> {
        let mut conn = Connection::open(url, Duration::from_secs(10))?;
        let HotPath {
            session,
            listen: _,
            insert,
            insert_one: _,
            candidates,
            claim,
            heartbeat,
            finish,
            begin_commit,
            unmark,
            complete,
        } = sqlite_hot_path();
        conn.execute(session)?;
        if finish != complete {
            return Err("the library finishes in another way than it commits".into());
        }
        let complete = complete.into_iter().map(|text| conn.prepare(text));
        Ok(Self {
            complete: complete.collect::<Answer<_>>()?,
            insert: conn.prepare(insert)?,
            candidates: conn.prepare(candidates.ok_or("the library claims by one statement")?)?,
            claim: conn.prepare(claim)?,
            heartbeat: conn.prepare(heartbeat)?,
            version: conn.prepare("PRAGMA data_version")?,
            seen: 0,
            write: conn.prepare("INSERT INTO bench_rows (job) VALUES ($1)")?,
            begin: conn.prepare("BEGIN IMMEDIATE")?,
            commit: conn.prepare("COMMIT")?,
            begin_commit,
            unmark: unmark.map(|text| conn.prepare(text)).transpose()?,
            conn,
        })
    }

    fn insert(&mut self, jobs: &[Plain]) -> Answer {
        let now = now_ms();
        let rows = serde_json::to_string(&jobs.iter().map(|job| row(job, now)).collect::<Vec<_>>())?;
        let values = [Value::Text(&rows), Value::Integer(now)];
        let inserted = self.conn.run(&mut self.insert, &values, 1)?.len();
        if inserted != jobs.len() {
            return Err(format!("{inserted} of {} jobs were inserted", jobs.len()).into());
        }
        Ok(())
    }

    fn claim(&mut self, claim: &Claim<'_>) -> Answer<Claimed> {
        let (token, worker) = (claim.lease_token.to_string(), claim.worker.to_string());
        self.conn.run(&mut self.begin, &[], 0)?;
        let like = claim.like;
        let values = [
            Value::Text(like.queue),
            Value::Text(like.kind),
            Value::Integer(like.version.into()),
            Value::Integer(claim.limit),
        ];
        let candidates = self.conn.run(&mut self.candidates, &values, 1)?;
        let ids = serde_json::to_string(&candidates.into_iter().flatten().collect::<Vec<_>>())?;
        let values = [
            Value::Text(&ids),
            Value::Text(&token),
            Value::Text(&worker),
            Value::Integer(1),
            Value::Integer(now_ms()),
        ];
        // The columns up to the generation, which is the eighth.
        let rows = self.conn.run(&mut self.claim, &values, 8)?;
        self.conn.run(&mut self.commit, &[], 0)?;
        let fence = |row: Vec<i64>| Fence {
            id: row[0],
            generation: row[7],
            lease_token: claim.lease_token,
        };
        Ok(Claimed {
            fences: rows.into_iter().map(fence).collect(),
            last: None,
        })
    }

    fn heartbeat(&mut self, fences: &[Fence]) -> Answer<usize> {
        self.conn.run(&mut self.begin, &[], 0)?;
        let fences = as_json(fences)?;
        let values = [Value::Text(&fences), Value::Integer(now_ms())];
        let renewed = self.conn.run(&mut self.heartbeat, &values, 1)?.len();
        self.conn.run(&mut self.commit, &[], 0)?;
        Ok(renewed)
    }

    fn listen(&mut self) -> Answer {
        self.wait(Duration::ZERO)
    }

    fn wait(&mut self, timeout: Duration) -> Answer {
        let deadline = Instant::now() + timeout;
        loop {
            let version = self.conn.run(&mut self.version, &[], 1)?;
            let version = version.first().and_then(|row| row.first()).copied().unwrap_or_default();
            if std::mem::replace(&mut self.seen, version) != version || Instant::now() >= deadline {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn finish(&mut self, fences: &[Fence]) -> Answer<usize> {
        self.conn.run(&mut self.begin, &[], 0)?;
        let finished = self.complete(fences)?;
        self.conn.run(&mut self.commit, &[], 0)?;
        Ok(finished)
    }

    fn commit(&mut self, fence: &Fence) -> Answer<bool> {
        self.conn.execute(&self.begin_commit)?;
        self.conn.run(&mut self.write, &[Value::Integer(fence.id)], 0)?;
        if let Some(unmark) = &mut self.unmark {
            self.conn.run(unmark, &[], 0)?;
        }
        let completed = self.complete(&[*fence])?;
        self.conn.run(&mut self.commit, &[], 0)?;
        Ok(completed == 1)
    }
}

impl Sqlite {
    /// In a transaction that is open.
    fn complete(&mut self, fences: &[Fence]) -> Answer<usize> {
        let mut json = String::with_capacity(2 + 64 * fences.len());
        for fence in fences {
            json.push(if json.is_empty() { '{' } else { ',' });
            write!(json, r#""{}":"{}.{}""#, fence.id, fence.generation, fence.lease_token)?;
        }
        json.push('}');
        let values = [
            Value::Text(&json),
            Value::Text("completed"),
            Value::Integer(0),
            Value::Integer(now_ms()),
            Value::Null,
            Value::Integer(0),
        ];
        let mut completed = 0;
        for (place, statement) in self.complete.iter_mut().enumerate() {
            let rows = self.conn.run(statement, &values, 1)?;
            // The first one copies, and answers what it copied.
            if place == 0 {
                completed = rows.len();
            }
        }
        Ok(completed)
    }
}

fn as_json(fences: &[Fence]) -> Answer<String> {
    let mut json = String::with_capacity(2 + 64 * fences.len());
    for fence in fences {
        json.push(if json.is_empty() { '[' } else { ',' });
        write!(json, r#"[{},{},"{}"]"#, fence.id, fence.generation, fence.lease_token)?;
    }
    json.push(']');
    Ok(json)
}

/// A job as the elements that the insert reads.
fn row(job: &Plain, now: i64) -> impl serde::Serialize + '_ {
    let none = None::<i64>;
    let rest = (none, none, 0, none, 0, none, OPEN);
    (
        job.queue,
        job.kind,
        job.version,
        job.payload.as_str(),
        0,
        now,
        0,
        job.max_attempts,
        job.lease_ms,
        none,
        none,
        rest,
    )
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
