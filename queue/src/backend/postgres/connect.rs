use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crossbeam_channel::Receiver;
use diesel::connection::{AnsiTransactionManager, CacheSize, Connection, SimpleConnection, TransactionManager};
use diesel::result::{ConnectionError, QueryResult};
use diesel::sql_types::{Bool, Integer, Nullable, Text};
use diesel::{ConnectionResult, PgConnection, QueryableByName, RunQueryDsl};

use super::conninfo::with_limits;
use crate::backend::{Connect, ConnectionSettings, Isolation, Listening, ServerError, Wakes, WriteGate};
use crate::commit::{depth, roll_back_to};
use crate::schema::Schema;
use crate::sql::Sql;
use crate::worker::listener::listen;

/// For our own statements alone, so never on a connection of the handlers' pool.
///
/// - One plan for each statement, made once. Left to itself the server plans a bound `LIMIT` anew at every call.
/// - Such a plan, made while the tables were empty or for a few rows, must do for full ones and for many: no table is read
///   whole where an index serves, and no list is gone through once for each row of another. The server expresses "off"
///   by costs, which would start the just-in-time compiler for a plain count.
/// - A database that asks for more isolation by default would fail the queue's statements with conflicts that their own
///   row locks and fences already exclude.
/// - A lock that somebody else keeps must not stop the thread that settles everybody's jobs.
pub(super) const CONTROL: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_nestloop = off;
    SET jit = off;
    SET default_transaction_isolation = 'read committed';
";

const LOCK_TIMEOUT: &str = "SET lock_timeout = '5s'";

const SERVER: &str = "
    SELECT pg_catalog.current_setting('server_version') AS version,
        pg_catalog.current_setting('server_version_num')::integer AS number,
        pg_catalog.current_setting('fsync', true) AS fsync,
        pg_catalog.current_setting('full_page_writes', true) AS full_page_writes,
        pg_catalog.current_setting('synchronous_commit', true) AS synchronous_commit
";

const LEVEL: &str = "
    SELECT pg_catalog.current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') AS sees_commits
";

/// It is gone with the transaction, also after a raw COMMIT or ROLLBACK of which Diesel knows nothing.
const MARK: &str = "SET LOCAL in_commit.leasehold = 'on'";

pub(super) const OLDEST: i32 = 130_000;

#[derive(QueryableByName)]
struct Level {
    #[diesel(sql_type = Bool)]
    sees_commits: bool,
}

#[derive(QueryableByName)]
struct Server {
    #[diesel(sql_type = Text)]
    version: String,
    #[diesel(sql_type = Integer)]
    number: i32,
    #[diesel(sql_type = Nullable<Text>)]
    fsync: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    full_page_writes: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    synchronous_commit: Option<String>,
}

impl Connect for PgConnection {
    fn connect(url: &str, settings: &ConnectionSettings) -> ConnectionResult<Self> {
        let mut conn = <Self as Connection>::establish(&with_limits(url))?;
        let configured = conn
            .configure(settings)
            .and_then(|()| match settings.transaction_pooler {
                true => Ok(()),
                false => conn
                    .batch_execute(CONTROL)
                    .and_then(|()| conn.batch_execute(LOCK_TIMEOUT)),
            });
        configured.map_err(ConnectionError::CouldntSetupConfiguration)?;
        Ok(conn)
    }

    fn pool_url(url: &str) -> String {
        with_limits(url)
    }

    fn configure(&mut self, settings: &ConnectionSettings) -> QueryResult<()> {
        if settings.transaction_pooler {
            // A setting would stay with a server that others use, and a prepared statement would be missing on the next.
            // Without its cache Diesel parses, binds and runs in one step, which a pooler keeps on one server.
            self.set_prepared_statement_cache_size(CacheSize::Disabled);
            return Ok(());
        }
        self.batch_execute(&format!(
            "SET idle_in_transaction_session_timeout = {}",
            millis(settings.idle_in_transaction)
        ))
    }

    fn check_server(&mut self, allow_unsafe: bool) -> Result<Vec<String>, ServerError> {
        let server: Server = Sql(SERVER, ()).get_result(self)?;
        if server.number < OLDEST {
            return Err(ServerError::TooOld {
                found: server.version,
                needed: "13",
            });
        }
        let mut warnings = Vec::new();
        for (name, value) in [("fsync", &server.fsync), ("full_page_writes", &server.full_page_writes)] {
            if value.as_deref() != Some("off") {
                continue;
            }
            let setting = format!("{name} = off");
            if !allow_unsafe {
                let remedy = "turn it on in postgresql.conf, or allow an unsafe server where nothing is worth keeping";
                return Err(ServerError::Unsafe { setting, remedy });
            }
            warnings.push(format!("{setting}: a crash may lose or tear what was committed"));
        }
        if server.synchronous_commit.as_deref() == Some("off") {
            let told = "claims are durable all the same, but a crash may lose acknowledged completions and enqueues";
            warnings.push(format!("synchronous_commit = off: {told}"));
        }
        Ok(warnings)
    }

    fn begin_commit(&mut self, isolation: Option<Isolation>, settings: &ConnectionSettings) -> QueryResult<()> {
        if depth(self)? > 0 {
            AnsiTransactionManager::begin_transaction(self)?;
            return self.batch_execute(MARK);
        }
        AnsiTransactionManager::begin_transaction_sql(self, &begin_commit(isolation, settings))
    }

    fn begin_write(&mut self) -> QueryResult<()> {
        // In a transaction of which Diesel does not know (a raw BEGIN) the server refuses NOT DEFERRABLE after the first
        // statement. A plain BEGIN would only warn, and our COMMIT would commit what somebody else has written there.
        // An enqueue that met a key looks again for its holder, and must see what was committed meanwhile.
        AnsiTransactionManager::begin_transaction_sql(self, "BEGIN ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE")
    }

    fn sees_commits(&mut self) -> QueryResult<bool> {
        // A transaction of our own says its level itself.
        if depth(self)? == 0 {
            return Ok(true);
        }
        let level: Level = Sql(LEVEL, ()).get_result(self)?;
        Ok(level.sees_commits)
    }

    fn briefly<T>(
        &mut self,
        settings: &ConnectionSettings,
        work: impl FnOnce(&mut Self) -> QueryResult<T>,
    ) -> QueryResult<T> {
        // Behind such a pooler the role's own limit must do.
        if settings.transaction_pooler {
            return work(self);
        }
        self.batch_execute("SET lock_timeout = '200ms'")?;
        let done = work(self);
        self.batch_execute(LOCK_TIMEOUT)?;
        done
    }

    fn begin_resolve(&mut self) -> QueryResult<()> {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '1s'";
        AnsiTransactionManager::begin_transaction_sql(self, begin)
    }

    fn read_only<T, E>(&mut self, reads: impl FnOnce(&mut Self) -> Result<T, E>) -> QueryResult<Result<T, E>> {
        let before = depth(self)?;
        if before == 0 {
            AnsiTransactionManager::begin_transaction_sql(self, "BEGIN READ ONLY")?;
        } else {
            AnsiTransactionManager::begin_transaction(self)?;
            self.batch_execute("SET LOCAL transaction_read_only = on")?;
        }
        let answer = catch_unwind(AssertUnwindSafe(|| reads(self)));
        let left = if before == 0 {
            // In SQL, since Diesel knows nothing of one that the reads began by a raw BEGIN.
            self.batch_execute("ROLLBACK")
        } else {
            roll_back_to(self, before);
            Ok(())
        };
        match answer {
            Ok(answer) => left.map(|()| answer),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn write_gate(_: &str) -> WriteGate {
        WriteGate::default()
    }

    fn listen(
        url: &str,
        settings: &ConnectionSettings,
        schema: &Schema,
        wakes: Wakes,
    ) -> std::io::Result<Option<Listening>> {
        // Behind such a pooler LISTEN is accepted and nothing is ever heard: the claimer's own looks must do.
        if settings.transaction_pooler {
            return Ok(None);
        }
        let (stopped, stop) = std::io::pipe()?;
        let (poked, poke) = std::io::pipe()?;
        wakes.idle.attach(poke.try_clone()?);
        wakes.idle_relays.attach(poke);
        let (conninfo, schema) = (with_limits(url), schema.clone());
        let thread = std::thread::Builder::new().name("leasehold-listen".to_owned());
        let thread = thread.spawn(move || listen(&conninfo, &schema, &wakes, &stopped, &poked))?;
        Ok(Some(Listening { thread, stop }))
    }

    fn wait_for_change(&mut self, _seen: &mut i64, wake: &Receiver<()>, timeout: Duration) {
        // Nothing hangs on why it ended: the caller looks for jobs in any case.
        let _ = wake.recv_timeout(timeout);
    }
}

/// Begins and marks the transaction of a commit.
pub(super) fn begin_commit(isolation: Option<Isolation>, settings: &ConnectionSettings) -> String {
    let level = match isolation {
        None => "",
        Some(Isolation::ReadCommitted) => " ISOLATION LEVEL READ COMMITTED",
        Some(Isolation::RepeatableRead) => " ISOLATION LEVEL REPEATABLE READ",
        Some(Isolation::Serializable) => " ISOLATION LEVEL SERIALIZABLE",
    };
    let idle = millis(settings.idle_in_transaction);
    // Not deferrable, as in `begin_write`.
    format!("BEGIN{level} NOT DEFERRABLE; {MARK}; SET LOCAL idle_in_transaction_session_timeout = {idle}")
}

/// Milliseconds as the server's settings take them. A number, so it needs no quoting where nothing can be bound.
fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
