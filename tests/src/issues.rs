//! An application's table whose rows are owned, and its articles.

use std::time::Duration;

use diesel::expression::Expression;
use diesel::sql_types::BigInt;
use leasehold::__private::{Connect, ConnectionSettings};
use leasehold::Backend;
use leasehold::rows::{self, Answer, OwnedRow, RowLease, RowOn};

use crate::TestDb;

/// Longer than any test takes.
pub const MINUTE: Duration = Duration::from_secs(60);

/// The row type of a backend.
macro_rules! issue {
    ($module:ident, $token:ty, $until:ty) => {
        #[allow(missing_docs, reason = "a table")]
        pub mod $module {
            diesel::table! {
                use diesel::sql_types::*;
                issue (id) {
                    id -> BigInt,
                    processing_status -> Text,
                    generation -> BigInt,
                    lease_token -> $token,
                    lease_until -> $until,
                }
            }

            /// A row of the table.
            #[derive(Debug)]
            pub struct Issue;

            impl leasehold::rows::OwnedRow for Issue {
                type Table = issue::table;
                type Id = issue::id;
                type Status = issue::processing_status;
                type Generation = issue::generation;
                type LeaseToken = issue::lease_token;
                type LeaseUntil = issue::lease_until;
                const READY: &'static [&'static str] = &["PENDING", "FAILED"];
                const RUNNING: &'static str = "IN_PROGRESS";
            }
        }
    };
}

#[cfg(feature = "sqlite")]
issue!(lite, Nullable<Text>, Nullable<BigInt>);
#[cfg(feature = "postgres")]
issue!(pg, Nullable<Uuid>, Nullable<Timestamptz>);

/// The row type of each backend, whose columns have types of their own.
pub trait Issues: TestDb {
    /// A row of the table.
    type Issue: OwnedRow;
}

#[cfg(feature = "sqlite")]
impl Issues for crate::sqlite::Database {
    type Issue = lite::Issue;
}

#[cfg(feature = "postgres")]
impl Issues for crate::postgres::Database {
    type Issue = pg::Issue;
}

/// A table of the application with pending issues of these ids, and its articles. The queue's own tables are not needed.
pub fn issues<D: TestDb>(db: &mut D, ids: &[i64]) -> D::Connection {
    let (token, until) = match D::BACKEND {
        "postgres" => ("uuid", "timestamptz"),
        _ => ("text", "bigint"),
    };
    db.sql(&format!(
        "CREATE TABLE desk (id bigint PRIMARY KEY, open boolean NOT NULL);
         INSERT INTO desk VALUES (1, true), (2, false);
         CREATE TABLE issue (id bigint PRIMARY KEY, desk bigint NOT NULL DEFAULT 1, title text NOT NULL DEFAULT 'news',
            processing_status text NOT NULL DEFAULT 'PENDING', generation bigint NOT NULL DEFAULT 0,
            lease_token {token}, lease_until {until});
         CREATE TABLE article (issue bigint PRIMARY KEY)"
    ));
    for id in ids {
        db.sql(&format!("INSERT INTO issue (id) VALUES ({id})"));
    }
    Connect::connect(&db.url(), &ConnectionSettings::default()).expect("the test's database can be connected to")
}

/// Claims rows for a minute.
#[track_caller]
pub fn claim_ids<R, C>(conn: &mut C, ids: &[i64]) -> Vec<(i64, Answer<R>)>
where
    C: Backend,
    R: RowOn<C> + OwnedRow<Id: Expression<SqlType = BigInt>>,
{
    rows::claim::<R, _>(conn, ids, MINUTE).expect("it is there")
}

/// Claims one row that can be claimed.
#[track_caller]
pub fn claim_one<R, C>(conn: &mut C, id: i64) -> RowLease<R>
where
    C: Backend,
    R: RowOn<C> + OwnedRow<Id: Expression<SqlType = BigInt>>,
{
    let mut answers = claim_ids::<R, _>(conn, &[id]);
    assert_eq!(answers.len(), 1);
    answers.remove(0).1.claimed().expect("it can be claimed")
}

/// `id answer` of each, in order.
pub fn texts<R: OwnedRow>(answers: &[(i64, Answer<R>)]) -> Vec<String> {
    let text = |answer: &Answer<R>| match answer {
        Answer::Claimed(_) => "claimed".to_owned(),
        Answer::Busy => "busy".to_owned(),
        Answer::Running => "running".to_owned(),
        Answer::NotReady { status } => status.clone(),
        Answer::Missing => "missing".to_owned(),
    };
    answers
        .iter()
        .map(|(id, answer)| format!("{id} {}", text(answer)))
        .collect()
}

/// `status/generation`, and whether it has a token and an end of its lease.
#[track_caller]
pub fn issue<D: TestDb>(db: &mut D, id: i64) -> String {
    db.text(&format!(
        "SELECT processing_status || '/' || generation || CASE WHEN lease_token IS NULL THEN '' ELSE ' token' END
            || CASE WHEN lease_until IS NULL THEN '' ELSE ' until' END FROM issue WHERE id = {id}"
    ))
    .expect("it is there")
}

/// The lease ends, as if its time had passed.
#[track_caller]
pub fn expire<D: TestDb>(db: &mut D, id: i64) {
    db.set_time("issue", "lease_until", -1000, &format!("id = {id}"));
}

/// How many articles there are.
pub fn articles<D: TestDb>(db: &mut D) -> i64 {
    db.integer("SELECT count(*) FROM article")
}

/// Writes the article of an issue.
///
/// # Errors
///
/// The database's: a second article of an issue is refused.
pub fn write_article<C: Backend>(tx: &mut C, issue: i64) -> diesel::QueryResult<()> {
    tx.batch_execute(&format!("INSERT INTO article VALUES ({issue})"))
}
