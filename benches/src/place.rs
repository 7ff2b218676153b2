//! Where a measurement runs: an empty database of its own on either backend.

use std::fmt;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use leasehold::{Backend, Worker};
use tempfile::TempDir;

use crate::cost::Spent;
use crate::jobs::Kind;
use crate::options::postgres_url;
use crate::{Answer, Report, raw};

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// A backend that can be measured.
pub trait Bench: Backend + SimpleConnection {
    /// The same statements without a framework.
    type Raw: raw::Client;

    /// The table into which a job's commit inserts.
    const TABLE: &'static str;

    /// Whether one connection writes at a time.
    const ONE_WRITER: bool;

    /// Makes an empty database.
    ///
    /// # Errors
    ///
    /// When there is no server, or no room.
    fn create(place: &Place) -> Answer<(String, Leftover)>;

    /// Registers the handler of a kind.
    fn register(worker: Worker<Self, ()>, kind: Kind) -> Worker<Self, ()>;

    /// Writes versions and settings into the report.
    ///
    /// # Errors
    ///
    /// The database's.
    fn describe(&mut self, report: &mut Report) -> Answer;

    /// How many transactions have completed the finished jobs, where the database knows.
    ///
    /// # Errors
    ///
    /// The database's.
    fn completing_transactions(&mut self) -> Answer<Option<i64>>;

    /// How many claims have taken the finished jobs.
    ///
    /// # Errors
    ///
    /// The database's.
    fn claims(&mut self) -> Answer<i64>;

    /// What the database has spent so far, once everybody else has left it.
    ///
    /// # Errors
    ///
    /// The database's.
    fn spent(&mut self) -> Answer<Vec<Spent>>;
}

/// Where databases are made.
#[derive(Debug, Clone)]
pub struct Place {
    /// The server's URL, for PostgreSQL.
    pub server: Option<String>,
}

impl Place {
    /// The server that the environment names.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { server: postgres_url() }
    }
}

/// What goes with a database.
pub enum Leftover {
    /// A directory of files.
    Files(TempDir),
    /// A database to be dropped, by its name, on the server.
    #[cfg(feature = "postgres")]
    Database {
        /// Its name.
        name: String,
        /// A session beside it.
        server: Box<diesel::PgConnection>,
    },
}

impl fmt::Debug for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leftover")
    }
}

/// A database with the queue's tables and that of the bench, gone on drop.
#[derive(Debug)]
pub struct Database<C> {
    /// Its address.
    pub url: String,
    /// A session for whoever prepares and looks.
    pub conn: C,
    _leftover: Leftover,
}

impl<C: Bench> Database<C> {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// When there is no server, or no room.
    pub fn new(place: &Place) -> Answer<Self> {
        let (url, leftover) = C::create(place)?;
        let mut conn = C::establish(&url)?;
        conn.batch_execute(C::TABLE)?;
        leasehold::migrate(&mut conn)?;
        drop(conn);
        Ok(Self {
            // Another session: the statistics of the first are told as it ends, and would be taken for the measurement's.
            conn: C::establish(&url)?,
            url,
            _leftover: leftover,
        })
    }

    /// Makes one with so many jobs, enqueued by the reference: what is measured comes later.
    ///
    /// # Errors
    ///
    /// As [`Database::new`].
    pub fn filled(place: &Place, kind: Kind, jobs: usize) -> Answer<Self> {
        let database = Self::new(place)?;
        raw::shapes::enqueue::<C::Raw>(&database.url, &kind.plain()?, jobs, 1, true)?;
        Ok(database)
    }
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

#[derive(QueryableByName)]
struct OneText {
    #[diesel(sql_type = Text)]
    text: String,
}
