//! The statements on PostgreSQL. Everything that is bound is bound here.

use std::time::Duration;

use leasehold::__private::{Fence, HotPath, Place, postgres_hot_path};
use uuid::Uuid;

use super::libpq::Connection;
use super::{Claim, Claimed, Client, Plain, Purpose};
use crate::Answer;

/// The types' numbers, which are fixed.
mod oid {
    pub(super) const BOOL: u32 = 16;
    pub(super) const BIGINT: u32 = 20;
    pub(super) const SMALLINT: u32 = 21;
    pub(super) const INTEGER: u32 = 23;
    pub(super) const TEXT: u32 = 25;
    pub(super) const TIMESTAMPTZ: u32 = 1184;
    pub(super) const UUID: u32 = 2950;
    pub(super) const BOOLS: u32 = 1000;
    pub(super) const SMALLINTS: u32 = 1005;
    pub(super) const INTEGERS: u32 = 1007;
    pub(super) const TEXTS: u32 = 1009;
    pub(super) const BIGINTS: u32 = 1016;
    pub(super) const TIMESTAMPTZS: u32 = 1185;
    pub(super) const UUIDS: u32 = 2951;
}

const CLAIM_TYPES: [u32; 10] = [
    oid::TEXTS,
    oid::TEXTS,
    oid::INTEGERS,
    oid::BIGINT,
    oid::UUID,
    oid::UUID,
    oid::BOOL,
    oid::INTEGERS,
    oid::TIMESTAMPTZS,
    oid::BIGINTS,
];
const FENCES_TYPES: [u32; 3] = [oid::BIGINTS, oid::BIGINTS, oid::UUIDS];
const COMPLETE_TYPES: [u32; 3] = [oid::BIGINT, oid::BIGINT, oid::UUID];
const INSERT_TYPES: [u32; 18] = [
    oid::TEXTS,
    oid::TEXTS,
    oid::INTEGERS,
    oid::TEXTS,
    oid::SMALLINTS,
    oid::BIGINTS,
    oid::BIGINTS,
    oid::INTEGERS,
    oid::BIGINTS,
    oid::TEXTS,
    oid::TEXTS,
    oid::BIGINTS,
    oid::TEXTS,
    oid::SMALLINTS,
    oid::BIGINTS,
    oid::BOOLS,
    oid::BOOLS,
    oid::SMALLINTS,
];
const INSERT_ONE_TYPES: [u32; 18] = [
    oid::TEXT,
    oid::TEXT,
    oid::INTEGER,
    oid::TEXT,
    oid::SMALLINT,
    oid::BIGINT,
    oid::BIGINT,
    oid::INTEGER,
    oid::BIGINT,
    oid::TEXT,
    oid::TEXT,
    oid::BIGINT,
    oid::TEXT,
    oid::SMALLINT,
    oid::BIGINT,
    oid::BOOL,
    oid::BOOL,
    oid::SMALLINT,
];

/// A unique key's states by default: ready and running.
const OPEN: i16 = 3;

/// A connection with the statements prepared.
#[expect(missing_debug_implementations, reason = "a handle of libpq's")]
pub struct Postgres {
    conn: Connection,
    hot_path: HotPath,
}

impl Client for Postgres {
    fn open(url: &str, purpose: Purpose) -> Answer<Self> {
        let mut conn = Connection::open(url)?;
        let hot_path = postgres_hot_path();
        if purpose == Purpose::Control {
            conn.execute(hot_path.session)?;
        }
        conn.prepare(c"insert", hot_path.insert, &INSERT_TYPES)?;
        let insert_one = hot_path
            .insert_one
            .ok_or("the library has one statement for all inserts")?;
        conn.prepare(c"insert_one", insert_one, &INSERT_ONE_TYPES)?;
        conn.prepare(c"claim", hot_path.claim, &CLAIM_TYPES)?;
        let ([finish], [complete]) = (&hot_path.finish[..], &hot_path.complete[..]) else {
            return Err("the library completes in several statements".into());
        };
        conn.prepare(c"finish", finish, &FENCES_TYPES)?;
        conn.prepare(c"heartbeat", hot_path.heartbeat, &FENCES_TYPES)?;
        conn.prepare(c"complete", complete, &COMPLETE_TYPES)?;
        conn.prepare(c"write", "INSERT INTO bench_rows (job) VALUES ($1)", &[oid::BIGINT])?;
        Ok(Self { conn, hot_path })
    }

    fn insert(&mut self, jobs: &[Plain]) -> Answer {
        if let [job] = jobs {
            return insert_one(&mut self.conn, job);
        }
        let texts = |value: fn(&Plain) -> &str| array(oid::TEXT, jobs.iter().map(|job| Some(value(job).as_bytes())));
        let same = |kind: u32, value: Option<&[u8]>| array(kind, jobs.iter().map(|_| value));
        let lease: Vec<[u8; 8]> = jobs.iter().map(|job| job.lease_ms.to_be_bytes()).collect();
        let integers = |value: fn(&Plain) -> i32| {
            let values: Vec<[u8; 4]> = jobs.iter().map(|job| value(job).to_be_bytes()).collect();
            array(oid::INTEGER, values.iter().map(|value| Some(&value[..])))
        };
        let values = [
            texts(|job| job.queue)?,
            texts(|job| job.kind)?,
            integers(|job| job.version)?,
            texts(|job| &job.payload)?,
            same(oid::SMALLINT, Some(&0_i16.to_be_bytes()))?,
            same(oid::BIGINT, Some(&0_i64.to_be_bytes()))?,
            same(oid::BIGINT, None)?,
            integers(|job| job.max_attempts)?,
            array(oid::BIGINT, lease.iter().map(|value| Some(&value[..])))?,
            same(oid::TEXT, None)?,
            same(oid::TEXT, None)?,
            same(oid::BIGINT, None)?,
            same(oid::TEXT, None)?,
            same(oid::SMALLINT, Some(&0_i16.to_be_bytes()))?,
            same(oid::BIGINT, None)?,
            same(oid::BOOL, Some(&[0]))?,
            same(oid::BOOL, Some(&[0]))?,
            same(oid::SMALLINT, Some(&OPEN.to_be_bytes()))?,
        ];
        let rows = self.conn.run(c"insert", &values)?.len();
        if rows != jobs.len() {
            return Err(format!("{rows} of {} jobs were inserted", jobs.len()).into());
        }
        Ok(())
    }

    fn claim(&mut self, claim: &Claim<'_>) -> Answer<Claimed> {
        let one = |kind: u32, value: &[u8]| array(kind, [Some(value)].into_iter());
        let values = [
            one(oid::TEXT, claim.like.queue.as_bytes())?,
            one(oid::TEXT, claim.like.kind.as_bytes())?,
            one(oid::INTEGER, &claim.like.version.to_be_bytes())?,
            claim.limit.to_be_bytes().to_vec(),
            claim.lease_token.as_bytes().to_vec(),
            claim.worker.as_bytes().to_vec(),
            vec![1],
            one(oid::INTEGER, &claim.behind.rank.to_be_bytes())?,
            one(oid::TIMESTAMPTZ, &claim.behind.run_at.to_be_bytes())?,
            one(oid::BIGINT, &claim.behind.id.to_be_bytes())?,
        ];
        let rows = self.conn.run(c"claim", &values)?;
        let (id, generation) = (rows.column(c"id")?, rows.column(c"generation")?);
        let (priority, run_at) = (rows.column(c"priority")?, rows.column(c"run_at")?);
        let mut claimed = Claimed::default();
        for row in 0..rows.len() {
            let fence = Fence {
                id: i64::from_be_bytes(rows.value(row, id)?),
                generation: i64::from_be_bytes(rows.value(row, generation)?),
                lease_token: claim.lease_token,
            };
            let place = Place {
                rank: -i32::from(i16::from_be_bytes(rows.value(row, priority)?)),
                run_at: i64::from_be_bytes(rows.value(row, run_at)?),
                id: fence.id,
            };
            claimed.fences.push(fence);
            claimed.last = claimed.last.max(Some(place));
        }
        Ok(claimed)
    }

    fn heartbeat(&mut self, fences: &[Fence]) -> Answer<usize> {
        Ok(self.conn.run(c"heartbeat", &columns(fences)?)?.len())
    }

    fn listen(&mut self) -> Answer {
        self.conn.execute(&self.hot_path.listen)
    }

    fn wait(&mut self, timeout: Duration) -> Answer {
        self.conn.wait(timeout)
    }

    fn finish(&mut self, fences: &[Fence]) -> Answer<usize> {
        Ok(self.conn.run(c"finish", &columns(fences)?)?.len())
    }

    fn commit(&mut self, fence: &Fence) -> Answer<bool> {
        self.conn.execute(&self.hot_path.begin_commit)?;
        self.conn.run(c"write", &[fence.id.to_be_bytes().to_vec()])?;
        let values = [
            fence.id.to_be_bytes().to_vec(),
            fence.generation.to_be_bytes().to_vec(),
            fence.lease_token.as_bytes().to_vec(),
        ];
        let completed = self.conn.run(c"complete", &values)?.len();
        self.conn.execute("COMMIT")?;
        Ok(completed == 1)
    }
}

/// Ids, generations and lease tokens.
fn columns(fences: &[Fence]) -> Answer<[Vec<u8>; 3]> {
    let bigints = |value: fn(&Fence) -> i64| {
        let values: Vec<[u8; 8]> = fences.iter().map(|fence| value(fence).to_be_bytes()).collect();
        array(oid::BIGINT, values.iter().map(|value| Some(&value[..])))
    };
    let tokens: Vec<Uuid> = fences.iter().map(|fence| fence.lease_token).collect();
    Ok([
        bigints(|fence| fence.id)?,
        bigints(|fence| fence.generation)?,
        array(oid::UUID, tokens.iter().map(|token| Some(&token.as_bytes()[..])))?,
    ])
}

/// An array in the binary format: one dimension, counted from 1.
fn array<'v>(element: u32, values: impl Iterator<Item = Option<&'v [u8]>>) -> Answer<Vec<u8>> {
    let (mut count, mut body) = (0_i32, Vec::new());
    for value in values {
        count += 1;
        let length = value.map_or(Ok(-1), |value| i32::try_from(value.len()))?;
        body.extend(length.to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    let mut array = Vec::with_capacity(20 + body.len());
    for number in [1, 1, i32::try_from(element)?, count, 1] {
        array.extend(number.to_be_bytes());
    }
    array.extend(body);
    Ok(array)
}

fn insert_one(conn: &mut Connection, job: &Plain) -> Answer {
    let (zero, short) = (0_i64.to_be_bytes(), 0_i16.to_be_bytes());
    let values = [
        Some(job.queue.as_bytes()),
        Some(job.kind.as_bytes()),
        Some(&job.version.to_be_bytes()[..]),
        Some(job.payload.as_bytes()),
        Some(&short),
        Some(&zero),
        None,
        Some(&job.max_attempts.to_be_bytes()),
        Some(&job.lease_ms.to_be_bytes()),
        None,
        None,
        None,
        None,
        Some(&short),
        None,
        Some(&[0]),
        Some(&[0]),
        Some(&OPEN.to_be_bytes()),
    ];
    match conn.run_with(c"insert_one", &values)?.len() {
        1 => Ok(()),
        rows => Err(format!("{rows} jobs were inserted").into()),
    }
}
