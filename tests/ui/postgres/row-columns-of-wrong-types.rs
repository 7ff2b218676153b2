//! The columns of a lease have types that fit the backend.

use std::time::Duration;

use diesel::{PgConnection, SqliteConnection};
use leasehold::rows::{self, OwnedRow};

diesel::table! {
    issue (id) {
        id -> Double,
        status -> Text,
        generation -> Integer,
        lease_token -> Text,
        lease_until -> Nullable<Timestamp>,
    }
}

diesel::table! {
    page (id) {
        id -> BigInt,
        status -> Text,
        generation -> BigInt,
        lease_token -> Nullable<Uuid>,
        lease_until -> Nullable<Timestamptz>,
    }
}

struct Issue;

impl OwnedRow for Issue {
    type Table = issue::table;
    type Id = issue::id;
    type Status = page::status;
    type Generation = issue::generation;
    type LeaseToken = issue::lease_token;
    type LeaseUntil = issue::lease_until;
    const READY: &'static [&'static str] = &["PENDING"];
    const RUNNING: &'static str = "IN_PROGRESS";
}

struct Page;

impl OwnedRow for Page {
    type Table = page::table;
    type Id = page::id;
    type Status = page::status;
    type Generation = page::generation;
    type LeaseToken = page::lease_token;
    type LeaseUntil = page::lease_until;
    const READY: &'static [&'static str] = &["PENDING"];
    const RUNNING: &'static str = "IN_PROGRESS";
}

fn on_sqlite(conn: &mut SqliteConnection) {
    let _ = rows::claim::<Page, _>(conn, &[1], Duration::ZERO);
}

fn on_postgres(conn: &mut PgConnection) {
    let _ = rows::claim::<Page, _>(conn, &[1], Duration::ZERO);
}

fn main() {}
