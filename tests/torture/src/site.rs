//! The database of a run, and what is asked of it from outside of the queue.

use std::fmt::Debug;

use diesel::QueryableByName;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::QueryResult;
use diesel::sql_types::{Nullable, Text};

use crate::jobs::Effects;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
pub(crate) use postgres::Postgres;

#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::Sqlite;

/// A database, and the faults that it can have by itself.
pub(crate) trait Site: Debug + Send + Sync {
    /// How programs connect to it.
    type Connection: Effects + Ask;

    /// The URL for worker `name`; every other one goes through what loses requests and answers, where there is such.
    fn worker_url(&self, name: &str, through_proxy: bool) -> String;

    /// A connection from outside of the queue, if the database takes one at this moment.
    ///
    /// # Errors
    ///
    /// Its own.
    fn connect(&self) -> ConnectionResult<Self::Connection>;

    /// What keeps a history of the jobs in the table `history`, as triggers.
    fn history() -> &'static str;

    /// Ends about half of the connections of one worker process; how many.
    fn terminate(&self, name: &str) -> usize;

    /// Loses, cuts or holds up one statement on its way; whether it can.
    fn lose(&self) -> bool;

    /// The server crashes, and starts again; whether there is one.
    fn crash(&mut self) -> bool;

    /// One of the server's processes is killed, which ends all the others; whether there is one.
    fn kill_backend(&mut self) -> bool;

    /// The server's clock jumps; whether it can.
    fn jump(&mut self) -> bool;

    /// No fault is under way any more.
    fn heal(&self);

    /// The jobs that run although their lease has run out, as one text each: id and generation.
    fn expired() -> &'static str;

    /// Locks two jobs, one after the other, as maintenance does that knows of no order.
    ///
    /// # Errors
    ///
    /// The database's: a deadlock, for one.
    fn lock_two(conn: &mut Self::Connection, first: i64, second: i64) -> QueryResult<()>;
}

/// A connection that answers questions in SQL.
pub(crate) trait Ask: Sized {
    /// The one text column of `query`; written for the schema `leasehold`.
    ///
    /// # Errors
    ///
    /// The database's.
    fn texts(&mut self, query: &str) -> QueryResult<Vec<String>>;

    /// Runs statements.
    ///
    /// # Errors
    ///
    /// The database's.
    fn run(&mut self, statements: &str) -> QueryResult<()>;

    /// The one number that `query` returns.
    ///
    /// # Errors
    ///
    /// The database's; and when it is no number.
    fn number(&mut self, query: &str) -> QueryResult<i64> {
        let answer = self.texts(query)?;
        let number = answer.first().and_then(|text| text.parse().ok());
        number.ok_or(diesel::result::Error::NotFound)
    }
}

#[derive(QueryableByName)]
struct Answer {
    #[diesel(sql_type = Nullable<Text>)]
    value: Option<String>,
}

macro_rules! ask {
    ($connection:ty, $render:expr) => {
        impl Ask for $connection {
            fn texts(&mut self, query: &str) -> QueryResult<Vec<String>> {
                let text = format!("WITH answer (value) AS ({query}) SELECT CAST(value AS text) AS value FROM answer");
                let answers: Vec<Answer> = diesel::sql_query($render(&text)).load(self)?;
                Ok(answers.into_iter().filter_map(|answer| answer.value).collect())
            }

            fn run(&mut self, statements: &str) -> QueryResult<()> {
                self.batch_execute(&$render(statements))
            }
        }
    };
}
#[cfg(feature = "postgres")]
ask!(PgConnection, |text: &str| text.to_owned());
#[cfg(feature = "sqlite")]
ask!(SqliteConnection, |text: &str| text.replace("leasehold.", "leasehold_"));
