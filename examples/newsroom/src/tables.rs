//! The newsroom's tables, on either backend.

use diesel::connection::SimpleConnection;
use diesel::expression::Expression;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use leasehold::Backend;
use leasehold::rows::{OwnedRow, RowOn};
use serde::Serialize;

/// An issue that nobody has written about.
pub const PENDING: &str = "PENDING";
/// An issue that somebody writes about, until the lease ends.
pub const IN_PROGRESS: &str = "IN_PROGRESS";
/// An issue with its article.
pub const DONE: &str = "DONE";
/// An issue whose article could not be written; it may be asked for again.
pub const FAILED: &str = "FAILED";

const TITLES: [&str; 8] = [
    "Bridge closed until spring",
    "Council votes on night buses",
    "Library opens on Sundays",
    "Harbour frozen for a week",
    "New song found in the archive",
    "School wins the chess cup",
    "Storm takes the market roof",
    "<script>alert('not a script')</script>",
];

mod articles {
    diesel::table! { article (id) { id -> BigInt, issue_id -> BigInt, text -> Text } }
}

/// An issue as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, QueryableByName)]
pub struct IssueView {
    /// Its id.
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// What it is about.
    #[diesel(sql_type = Text)]
    pub title: String,
    /// One of [`PENDING`], [`IN_PROGRESS`], [`DONE`], [`FAILED`].
    #[diesel(sql_type = Text)]
    pub status: String,
    /// How often it was claimed.
    #[diesel(sql_type = BigInt)]
    pub generation: i64,
    /// Milliseconds until its lease ends.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub lease_ms: Option<i64>,
}

/// An article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Queryable)]
pub struct Article {
    /// Its id.
    pub id: i64,
    /// The issue that it is about.
    pub issue_id: i64,
    /// What it says.
    pub text: String,
}

/// What the newsroom asks of its tables.
#[allow(clippy::missing_errors_doc, reason = "the database's, each time")]
pub trait Press: Backend {
    /// A row of the table `issue`, whose lease has the types of this backend.
    type Issue: RowOn<Self> + OwnedRow<Id: Expression<SqlType = BigInt>>;

    /// Creates the tables where they are missing, and fills an empty one with so many issues.
    fn prepare(&mut self, issues: usize) -> QueryResult<()>;

    /// What an issue is about.
    fn title(&mut self, id: i64) -> QueryResult<String>;

    /// The issues that can be claimed, the oldest first.
    fn eligible(&mut self, limit: i64) -> QueryResult<Vec<i64>>;

    /// The first issues, and the articles on them.
    fn look(&mut self, limit: i64) -> QueryResult<(Vec<IssueView>, Vec<Article>)>;

    /// Inserts an article.
    fn write_article(&mut self, issue_id: i64, text: &str) -> QueryResult<()>;
}

/// One process after the other: several may start at once.
#[cfg(feature = "sqlite")]
fn alone_on_sqlite(
    conn: &mut diesel::SqliteConnection,
    work: impl FnOnce(&mut diesel::SqliteConnection) -> QueryResult<()>,
) -> QueryResult<()> {
    conn.immediate_transaction(work)
}

/// One process after the other: several may start at once.
#[cfg(feature = "postgres")]
fn alone_on_postgres(
    conn: &mut diesel::PgConnection,
    work: impl FnOnce(&mut diesel::PgConnection) -> QueryResult<()>,
) -> QueryResult<()> {
    conn.transaction(|conn| {
        conn.batch_execute("SELECT pg_advisory_xact_lock(20260711)")?;
        work(conn)
    })
}

/// The table as a backend has it: types, statements, and the rest that is written alike on both.
macro_rules! press {
    ($module:ident, $connection:ty, $token:ty, $until:ty, $alone:ident, $create:literal, $lease_ms:literal, $expired:literal, $first:literal) => {
        mod $module {
            use super::articles::article;
            use super::*;

            diesel::table! {
                use diesel::sql_types::*;
                issue (id) {
                    id -> BigInt,
                    title -> Text,
                    processing_status -> Text,
                    generation -> BigInt,
                    lease_token -> $token,
                    lease_until -> $until,
                }
            }

            #[derive(Debug)]
            pub struct Issue;

            impl OwnedRow for Issue {
                type Table = issue::table;
                type Id = issue::id;
                type Status = issue::processing_status;
                type Generation = issue::generation;
                type LeaseToken = issue::lease_token;
                type LeaseUntil = issue::lease_until;
                const READY: &'static [&'static str] = &[PENDING, FAILED];
                const RUNNING: &'static str = IN_PROGRESS;
            }

            impl Press for $connection {
                type Issue = Issue;

                fn prepare(&mut self, issues: usize) -> QueryResult<()> {
                    $alone(self, |conn| {
                        conn.batch_execute($create)?;
                        if issue::table.count().get_result::<i64>(conn)? > 0 {
                            return Ok(());
                        }
                        for title in TITLES.iter().cycle().take(issues) {
                            diesel::insert_into(issue::table)
                                .values((issue::title.eq(title), issue::processing_status.eq(PENDING)))
                                .execute(conn)?;
                        }
                        Ok(())
                    })
                }

                fn title(&mut self, id: i64) -> QueryResult<String> {
                    issue::table.find(id).select(issue::title).first(self)
                }

                fn eligible(&mut self, limit: i64) -> QueryResult<Vec<i64>> {
                    let expired = issue::processing_status
                        .eq(IN_PROGRESS)
                        .and(diesel::dsl::sql::<diesel::sql_types::Bool>($expired));
                    issue::table
                        .filter(issue::processing_status.eq_any([PENDING, FAILED]).or(expired))
                        .order(issue::id)
                        .limit(limit)
                        .select(issue::id)
                        .load(self)
                }

                fn look(&mut self, limit: i64) -> QueryResult<(Vec<IssueView>, Vec<Article>)> {
                    let issues: Vec<IssueView> = diesel::sql_query(concat!(
                        "SELECT id, title, processing_status AS status, generation, CASE WHEN processing_status = 'IN_PROGRESS' THEN ",
                        $lease_ms,
                        " END AS lease_ms FROM issue ORDER BY id LIMIT ",
                        $first
                    ))
                    .bind::<BigInt, _>(limit)
                    .load(self)?;
                    let ids: Vec<i64> = issues.iter().map(|issue| issue.id).collect();
                    let articles = article::table.filter(article::issue_id.eq_any(ids)).order(article::id).load(self)?;
                    Ok((issues, articles))
                }

                fn write_article(&mut self, issue_id: i64, text: &str) -> QueryResult<()> {
                    diesel::insert_into(article::table)
                        .values((article::issue_id.eq(issue_id), article::text.eq(text)))
                        .execute(self)?;
                    Ok(())
                }
            }
        }
    };
}

// No article is refused for being a second one: that there is none is the claim's and the commit's doing.
#[cfg(feature = "sqlite")]
press!(
    sqlite,
    diesel::SqliteConnection,
    Nullable<Text>,
    Nullable<BigInt>,
    alone_on_sqlite,
    "CREATE TABLE IF NOT EXISTS issue (id INTEGER PRIMARY KEY, title TEXT NOT NULL, processing_status TEXT NOT NULL,
        generation INTEGER NOT NULL DEFAULT 0, lease_token TEXT, lease_until INTEGER);
     CREATE TABLE IF NOT EXISTS article (id INTEGER PRIMARY KEY, issue_id INTEGER NOT NULL REFERENCES issue (id), text TEXT NOT NULL);",
    "max(0, lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER))",
    "lease_until <= unixepoch('subsec') * 1000",
    "?"
);

#[cfg(feature = "postgres")]
press!(
    postgres,
    diesel::PgConnection,
    Nullable<Uuid>,
    Nullable<Timestamptz>,
    alone_on_postgres,
    "CREATE TABLE IF NOT EXISTS issue (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, title text NOT NULL,
        processing_status text NOT NULL, generation bigint NOT NULL DEFAULT 0, lease_token uuid, lease_until timestamptz);
     CREATE TABLE IF NOT EXISTS article (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
        issue_id bigint NOT NULL REFERENCES issue (id), text text NOT NULL);",
    "greatest(0, ceil(extract(epoch FROM lease_until - clock_timestamp()) * 1000))::bigint",
    "lease_until <= clock_timestamp()",
    "$1"
);
