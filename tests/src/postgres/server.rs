//! The server of this test program, with the connections that make and drop databases.

use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use super::{Cluster, URL_VARIABLE, cluster};
use crate::answer::OptionalText;
use crate::report;

pub(super) struct Server {
    url: String,
    /// Names this program in `application_name`, and the databases that it made: one whose maker has no session any more
    /// is a leftover of a run that was killed.
    program: String,
    /// Not in use at the moment: a test that makes a database waits for no other.
    sessions: Mutex<Vec<PgConnection>>,
    /// To the thread that drops databases: each drop waits for a checkpoint.
    drops: mpsc::Sender<String>,
    /// Kept for as long as the process lives.
    _cluster: Option<Cluster>,
}

/// The server that the environment names, or else a cluster of this process.
pub(super) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| match env::var(URL_VARIABLE) {
        Ok(url) => Server::connect(url, None),
        Err(_) => {
            let cluster = cluster();
            Server::connect(cluster.url(), Some(cluster))
        }
    })
}

impl Server {
    fn connect(url: String, cluster: Option<Cluster>) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let program = format!("leasehold_test_{}", &random[..12]);
        let mut session = session(&url, &program);
        report::line(&describe(&mut session));
        let (drops, names) = mpsc::channel();
        let mut dropping = self::session(&url, &program);
        sweep(&mut dropping);
        thread::spawn(move || {
            names
                .into_iter()
                .for_each(|name: String| drop_database(&mut dropping, &name));
        });
        Self {
            url,
            program,
            sessions: Mutex::new(vec![session]),
            drops,
            _cluster: cluster,
        }
    }

    /// Creates an empty database; its name and URL.
    pub(super) fn create_database(&self) -> (String, String) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{}_{}", self.program, NEXT.fetch_add(1, Ordering::Relaxed));
        // template0, because a session in template1 would be in the way, and what someone put there would come along.
        let free = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = free.unwrap_or_else(|| session(&self.url, &self.program));
        execute(&mut session, &format!("CREATE DATABASE {name} TEMPLATE template0"));
        self.sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(session);
        let url = with_database(&self.url, &name);
        (name, url)
    }

    /// Has a database dropped, and whoever is connected to it. Those that are left when the program ends are swept by the
    /// next one, or go with the cluster.
    pub(super) fn drop_database(&self, name: &str) {
        let _ = self.drops.send(name.to_owned());
    }
}

fn session(url: &str, program: &str) -> PgConnection {
    let mut session = PgConnection::establish(url).unwrap_or_else(|error| panic!("{URL_VARIABLE}: {error}"));
    execute(&mut session, &format!("SET application_name = '{program}'"));
    session
}

/// What cannot be dropped does not fail its test: it is said, and the next run sweeps it.
fn drop_database(session: &mut PgConnection, name: &str) {
    // IF EXISTS: another test program may sweep at the same time.
    if let Err(error) = session.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")) {
        report::line(&format!("{name} is left behind: {error}"));
    }
}

fn execute(session: &mut PgConnection, statement: &str) {
    session
        .batch_execute(statement)
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

fn sweep(session: &mut PgConnection) {
    // The sessions are read while the statement runs, the databases as of its begin: a maker connects before it makes.
    let leftovers: Vec<OptionalText> = diesel::sql_query(
        "SELECT made.datname::text AS value FROM pg_catalog.pg_database AS made \
         WHERE made.datname ~ '^leasehold_test_[0-9a-f]{12}_[0-9]+$' AND NOT EXISTS ( \
             SELECT FROM pg_catalog.pg_stat_activity AS maker \
             WHERE maker.application_name = pg_catalog.regexp_replace(made.datname::text, '_[0-9]+$', ''))",
    )
    .load(session)
    .expect("the server lists its databases");
    for name in leftovers.into_iter().filter_map(|row| row.value) {
        drop_database(session, &name);
    }
}

/// Engine and session, so that a report can be read without the machine it comes from.
fn describe(session: &mut PgConnection) -> String {
    let settings: OptionalText = diesel::sql_query(
        "SELECT pg_catalog.concat_ws(', ', pg_catalog.split_part(pg_catalog.version(), ' on ', 1), \
             'fsync ' || pg_catalog.current_setting('fsync'), \
             'synchronous_commit ' || pg_catalog.current_setting('synchronous_commit'), \
             'isolation ' || pg_catalog.current_setting('default_transaction_isolation')) AS value",
    )
    .get_result(session)
    .expect("the server tells its settings");
    format!(
        "tests on {}; autocommit outside of transactions; a database for each test, sessions in the order in which the test \
         opens them; times are no measurement",
        settings.value.unwrap_or_default()
    )
}

/// `url` with another database, its parameters kept.
fn with_database(url: &str, name: &str) -> String {
    let (scheme, rest) = url
        .split_once("://")
        .unwrap_or_else(|| panic!("{URL_VARIABLE} must be a URL, postgres://user@host/database"));
    let (address, parameters) = rest
        .split_once('?')
        .map_or((rest, None), |(head, tail)| (head, Some(tail)));
    let server = address.split_once('/').map_or(address, |(server, _)| server);
    let parameters = parameters
        .map(|parameters| format!("?{parameters}"))
        .unwrap_or_default();
    format!("{scheme}://{server}/{name}{parameters}")
}

/// `url` with another user, who has no password.
pub(super) fn with_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let address = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = rest[..address].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{user}@{}", &rest[host..])
}

#[cfg(test)]
mod tests {
    use super::{with_database, with_user};

    #[test]
    fn only_the_user_of_a_url_is_replaced() {
        assert_eq!(
            with_user("postgres://a:b@host:1/c?x=/d", "u"),
            "postgres://u@host:1/c?x=/d"
        );
        assert_eq!(with_user("postgres://host", "u"), "postgres://u@host");
        assert_eq!(with_user("postgres:///c?host=/a@b", "u"), "postgres://u@/c?host=/a@b");
    }

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        assert_eq!(
            with_database("postgres://a:b@host:1/c?x=/d", "t"),
            "postgres://a:b@host:1/t?x=/d"
        );
        assert_eq!(with_database("postgres://host", "t"), "postgres://host/t");
        assert_eq!(
            with_database("postgres://u@/c?host=/tmp/s", "t"),
            "postgres://u@/t?host=/tmp/s"
        );
        assert_eq!(
            with_database("postgresql://?host=/tmp/s", "t"),
            "postgresql:///t?host=/tmp/s"
        );
    }
}
