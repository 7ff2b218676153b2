//! Databases that are thrown away.

use leasehold_tests::postgres::{Cluster, find};
use postgres::{Client, NoTls};
use uuid::Uuid;

use crate::Failure;
use crate::answer::told;

/// Where databases are created.
pub(crate) struct Server {
    url: String,
    /// Goes with the program.
    _cluster: Option<Cluster>,
}

impl Server {
    /// The server at `url`, or else one of our own.
    pub(crate) fn new(url: Option<String>) -> Result<Self, Failure> {
        match url {
            Some(url) => Ok(Self { url, _cluster: None }),
            None => {
                let cluster = cluster(&[])?;
                Ok(Self {
                    url: cluster.url(),
                    _cluster: Some(cluster),
                })
            }
        }
    }

    pub(crate) fn create_database(&self) -> Result<Database, Failure> {
        let name = format!("leasehold_locking_{}", Uuid::new_v4().simple());
        let url = with_database(&self.url, &name)?;
        let mut maker = Client::connect(&self.url, NoTls).map_err(|error| told(&error))?;
        maker
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
            .map_err(|error| format!("a database of the program's own cannot be created: {}", told(&error)))?;
        Ok(Database { name, url, maker })
    }
}

/// Starts a server of our own.
pub(crate) fn cluster(settings: &[&str]) -> Result<Cluster, Failure> {
    Ok(Cluster::start(&find(None)?, settings))
}

/// An empty database that goes with this, and nothing else with it.
pub(crate) struct Database {
    name: String,
    url: String,
    maker: Client,
}

impl Database {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // FORCE ends the sessions of a demonstration that stopped halfway.
        if let Err(error) = self
            .maker
            .batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name))
        {
            eprintln!("{} is left behind: {error}", self.name);
        }
    }
}

/// `url` with another database, its parameters kept.
fn with_database(url: &str, name: &str) -> Result<String, Failure> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or("--database needs a URL: postgres://user@host/database")?;
    let (address, parameters) = match rest.split_once('?') {
        Some((address, parameters)) => (address, format!("?{parameters}")),
        None => (rest, String::new()),
    };
    let server = address.split_once('/').map_or(address, |(server, _)| server);
    Ok(format!("{scheme}://{server}/{name}{parameters}"))
}
