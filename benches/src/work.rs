//! The jobs of these benches, and the databases they run on.

use std::error::Error;

/// What a bench answers.
pub type Answer<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The address of the server of these benches.
pub const URL_VARIABLE: &str = "LEASEHOLD_TEST_DATABASE_URL";

/// A database of one's own, dropped at the end.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

#[cfg(feature = "postgres")]
impl Database {
    /// Makes an empty database with the queue's tables on the server that the environment names.
    ///
    /// # Errors
    ///
    /// There is none, or it refuses.
    pub fn make(purpose: &str) -> Answer<Self> {
        use diesel::Connection;
        let server = std::env::var(URL_VARIABLE).map_err(|_| {
            format!("set {URL_VARIABLE} to a server that may be loaded, or run beside a throw-away one")
        })?;
        let name = format!("leasehold_bench_{purpose}_{}", std::process::id());
        let mut admin = crate::libpq::Libpq::connect(&server)?;
        admin.execute(&format!("CREATE DATABASE {name}"))?;
        let database = Self { server, name };
        let mut conn = diesel::PgConnection::establish(&database.url())?;
        leasehold::migrate(&mut conn)?;
        Ok(database)
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        let (head, rest) = self.server.split_once("://").unwrap_or(("postgres", &self.server));
        let (address, parameters) = match rest.split_once('?') {
            Some((address, parameters)) => (address, format!("?{parameters}")),
            None => (rest, String::new()),
        };
        let host = address.split_once('/').map_or(address, |(host, _)| host);
        format!("{head}://{host}/{}{parameters}", self.name)
    }
}

#[cfg(feature = "postgres")]
impl Drop for Database {
    fn drop(&mut self) {
        let dropped = crate::libpq::Libpq::connect(&self.server)
            .and_then(|mut admin| admin.execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)));
        if let Err(error) = dropped {
            log::warn!("{} stays: {error}", self.name);
        }
    }
}
