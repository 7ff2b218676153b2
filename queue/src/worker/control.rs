//! A control connection: one that a thread of the runtime owns, made again after it broke.
//!
//! Never one from the handlers' pool: a pool that handlers use up must not stop a heartbeat.

use std::time::{Duration, Instant};

use diesel::result::{DatabaseErrorKind, Error, QueryResult};

use super::health::{self, Doing};
use crate::backend::{Backend, ConnectionSettings, WriteGate};
use crate::commit::is_dead;

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A connection with what is needed to make it again.
pub(crate) struct Control<C: Backend> {
    purpose: &'static str,
    url: String,
    settings: ConnectionSettings,
    gate: WriteGate,
    conn: Option<C>,
    away_since: Option<Instant>,
    wait: Duration,
}

/// A statement that did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no connection, or it broke: whether the statement took effect is unknown.
    #[error("the database is away")]
    Away,
    /// The server refused the statement; the connection lives.
    #[error("{0}")]
    Refused(Error),
}

impl<C: Backend> Control<C> {
    pub(crate) fn new(purpose: &'static str, url: &str, settings: &ConnectionSettings) -> Self {
        Self {
            purpose,
            url: url.to_owned(),
            settings: settings.clone(),
            gate: C::write_gate(url),
            conn: None,
            away_since: None,
            wait: FIRST_WAIT,
        }
    }

    /// Runs one statement that may write, in its turn among this process's writers.
    pub(crate) fn run<T>(&mut self, statement: impl FnOnce(&mut C) -> QueryResult<T>) -> Result<T, Failure> {
        let gate = self.gate.clone();
        self.read(|conn| gate.hold(|| statement(conn)))
    }

    /// Runs one statement that only reads, however long it takes.
    pub(crate) fn read<T>(&mut self, statement: impl FnOnce(&mut C) -> QueryResult<T>) -> Result<T, Failure> {
        let done = health::during(Doing::Statement, || self.try_once(statement));
        health::answered(!matches!(done, Err(Failure::Away)));
        done
    }

    fn try_once<T>(&mut self, statement: impl FnOnce(&mut C) -> QueryResult<T>) -> Result<T, Failure> {
        let conn = self.connected()?;
        match statement(conn) {
            Ok(value) => {
                self.back();
                Ok(value)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The connection for something that must not hold the gate, such as waiting; `None` while the database is away.
    pub(crate) fn connection(&mut self) -> Option<&mut C> {
        self.connected().ok()
    }

    fn connected(&mut self) -> Result<&mut C, Failure> {
        if self.conn.is_none() {
            match C::connect(&self.url, &self.settings) {
                Ok(conn) => self.conn = Some(conn),
                Err(error) => {
                    self.away(&masked(&self.url, &error));
                    return Err(Failure::Away);
                }
            }
        }
        self.conn.as_mut().ok_or(Failure::Away)
    }

    fn failed(&mut self, error: Error) -> Failure {
        // A server that became read-only has been replaced by another one: connect anew, wherever that leads.
        let read_only = matches!(error, Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _));
        let gone = read_only || self.conn.as_mut().is_none_or(|conn| is_dead(conn, &error));
        if !gone {
            log::warn!("{}: {error}", self.purpose);
            return Failure::Refused(error);
        }
        self.conn = None;
        self.away(&error.to_string());
        Failure::Away
    }

    /// One line when the database goes and one when it is back; the tries in between are not news.
    fn away(&mut self, error: &str) {
        if self.away_since.is_none() {
            log::warn!("{}: the database is away ({error}); trying again", self.purpose);
            self.away_since = Some(Instant::now());
        }
    }

    fn back(&mut self) {
        self.wait = FIRST_WAIT;
        if let Some(since) = self.away_since.take() {
            log::info!("{}: the database is back after {:?}", self.purpose, since.elapsed());
        }
    }

    /// How long to wait before the next try: growing up to five seconds, with a random spread so that many processes do
    /// not come back at once.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(LONGEST_WAIT);
        spread(wait)
    }
}

/// A time between half and the whole of `duration`, at random.
pub(crate) fn spread(duration: Duration) -> Duration {
    duration.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// An error's text without the URL's password, whole or in pieces: libpq cuts a URL at the first `@`, `/` or `:`, and a
/// password that was not escaped ends up in its messages as a host or a port.
pub(crate) fn masked(url: &str, error: &impl std::fmt::Display) -> String {
    let mut text = error.to_string();
    let credentials = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    let password = credentials
        .and_then(|(credentials, _)| credentials.split_once(':'))
        .map(|(_, password)| password);
    for piece in password
        .into_iter()
        .flat_map(|password| password.split(['@', '/', ':', '?', '#']))
    {
        if !piece.is_empty() {
            text = text.replace(piece, "…");
        }
    }
    text
}

/// How long looks that have found little rest: no longer than usual, unless they take long, because they step over dead
/// entries that an old transaction keeps. Then twenty times as long, a minute at the most. One slow look alone says
/// nothing: it waited for a lock, or for the machine.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    last: Duration,
}

impl Rest {
    /// After a look that took so long.
    pub(crate) fn after(&mut self, took: Duration) -> Duration {
        const CHEAP: Duration = Duration::from_millis(50);
        const LONGEST: Duration = Duration::from_secs(60);
        let cost = took.min(std::mem::replace(&mut self.last, took));
        cost.saturating_sub(CHEAP).saturating_mul(20).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Rest, masked};

    #[test]
    fn looks_that_take_long_rest_for_longer_and_a_single_slow_one_does_not() {
        let (mut rest, none) = (Rest::default(), Duration::ZERO);
        let ms = Duration::from_millis;
        assert_eq!(rest.after(ms(3000)), none, "one may have waited for the machine");
        assert_eq!(rest.after(ms(1)), none);
        assert_eq!(rest.after(ms(3000)), none);
        assert_eq!(rest.after(ms(1050)), ms(20_000), "as the cheaper of two");
        assert_eq!(rest.after(Duration::MAX), ms(20_000));
        assert_eq!(rest.after(Duration::MAX), ms(60_000));
        assert_eq!(rest.after(ms(50)), none);
    }

    #[test]
    fn a_password_does_not_show_in_an_error() {
        let url = "postgres://me:s3cr@et/x@db.example/app";
        assert_eq!(masked(url, &"host \"et\" port \"s3cr\""), "host \"…\" port \"…\"");
        assert_eq!(
            masked("jobs.db", &"unable to open database file"),
            "unable to open database file"
        );
    }
}
