//! Where a demonstration is played.

use crate::Failure;
use crate::session::Session;

pub(crate) type Played = Result<(), Failure>;

/// Sessions that are in each other's way, and what is to be learnt from it.
pub(crate) struct Demonstration {
    pub(crate) name: &'static str,
    pub(crate) lesson: &'static str,
    /// The numbers of the facts, as the tests in `tests/requirements` have them.
    pub(crate) facts: &'static str,
    pub(crate) play: fn(&mut Stage<'_>) -> Played,
}

pub(crate) struct Stage<'d> {
    demonstration: &'d Demonstration,
    url: String,
}

impl<'d> Stage<'d> {
    pub(crate) fn new(demonstration: &'d Demonstration, url: &str) -> Self {
        Self {
            demonstration,
            url: url.to_owned(),
        }
    }

    /// Goes on with another database.
    pub(crate) fn moves_to(&mut self, url: String) {
        self.url = url;
    }

    /// Opens the sessions, and prints what a reader must know of them.
    pub(crate) fn opens<const N: usize>(&self, names: [&str; N]) -> Result<[Session; N], Failure> {
        self.opens_as(names, &names.join(", "))
    }

    /// The same, with more to be said of the sessions than their names.
    pub(crate) fn opens_as<const N: usize>(&self, names: [&str; N], described: &str) -> Result<[Session; N], Failure> {
        let Demonstration {
            name, lesson, facts, ..
        } = self.demonstration;
        println!("{name}: {lesson} ({facts})");
        let mut sessions = self.sessions(names)?;
        println!("PostgreSQL {}", sessions[0].shows("server_version")?);
        let isolation = sessions[0].shows("default_transaction_isolation")?;
        println!("isolation {isolation} where no other is named; autocommit outside of BEGIN");
        println!("sessions {described}; their statements in the order of this page; no measurement");
        Ok(sessions)
    }

    /// Opens sessions.
    pub(crate) fn sessions<const N: usize>(&self, names: [&str; N]) -> Result<[Session; N], Failure> {
        let sessions: Result<Vec<_>, _> = names.into_iter().map(|name| Session::new(&self.url, name)).collect();
        Ok(sessions?.try_into().ok().expect("a session for each name"))
    }
}

/// Prints what comes next.
pub(crate) fn notes(text: &str) {
    println!("\n-- {}", text.replace('\n', "\n-- "));
}
