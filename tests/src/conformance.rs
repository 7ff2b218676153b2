/// A database of a test's own, on either backend, empty, and dropped at the end.
///
/// SQL is written in PostgreSQL's notation for tables of the schema `leasehold` (`leasehold.jobs`), and is run as
/// `leasehold_jobs` on SQLite.
pub trait TestDb: Sized {
    /// The connection that programs use on this backend.
    type Connection: leasehold::Backend;

    /// The backend's name: `postgres` or `sqlite`.
    const BACKEND: &'static str;

    /// Makes a new, empty database.
    fn new() -> Self;

    /// Its URL, as a program states it.
    fn url(&self) -> String;

    /// Opens another connection to it, as a host program would.
    fn connect(&self) -> Self::Connection;

    /// Runs SQL statements, separated by semicolons, outside of the queue's own connections.
    fn sql(&mut self, statements: &str);

    /// The one integer that `query` returns: `SELECT count(*) FROM leasehold.jobs`.
    fn integer(&mut self, query: &str) -> i64;

    /// The one column that `query` returns, as text, in its order.
    fn texts(&mut self, query: &str) -> Vec<Option<String>>;

    /// The one value that `query` returns, as text.
    #[track_caller]
    fn text(&mut self, query: &str) -> Option<String> {
        let mut rows = self.texts(query);
        assert_eq!(rows.len(), 1, "expected one row of {query}");
        rows.remove(0)
    }

    /// Writes "`milliseconds` from now" (negative: ago) into the time `column` of the rows of `table` that meet `filter`,
    /// so that no test waits for a lease to end. Fails unless it changes a row.
    fn set_time(&mut self, table: &str, column: &str, milliseconds: i64, filter: &str);
}

/// Says on standard error that a test was not run on a backend, and why.
pub fn skipped(test: &str, reason: &str) {
    crate::report::line(&format!("skipped: {test}: {reason}"));
}

/// A test that is written once and runs on both backends, as `name::sqlite` and `name::postgres`.
///
/// The body is compiled for each backend, with `Db` (a [`TestDb`]) and `Connection` (its connection) as the types of that
/// backend, so job types in it may say `impl Handler<Connection, ()>`.
///
/// What a backend cannot do is a named skip: `#[skip(sqlite, "SQLite has no row locks")]` before the `fn` prints the
/// reason in place of that run.
#[macro_export]
macro_rules! conformance {
    (
        $(#[doc = $doc:literal])*
        $(#[skip($skipped:ident, $why:literal)])?
        fn $name:ident($db:ident: &mut Db) $body:block
    ) => {
        $(#[doc = $doc])*
        #[allow(unused_imports, reason = "a test may need nothing from around it")]
        mod $name {
            use super::*;
            $crate::conformance!(@sqlite [$($skipped $why)?] $db $body);
            $crate::conformance!(@postgres [$($skipped $why)?] $db $body);
        }
    };
    (@sqlite [sqlite $why:literal] $db:ident $body:block) => {
        #[test]
        fn sqlite() {
            $crate::skipped(concat!(module_path!(), "::sqlite"), $why);
        }
    };
    (@sqlite [$($other:tt)*] $db:ident $body:block) => {
        #[cfg(feature = "sqlite")]
        #[test]
        fn sqlite() {
            $crate::conformance!(@run $crate::sqlite::Database, $db $body);
        }
    };
    (@postgres [postgres $why:literal] $db:ident $body:block) => {
        #[test]
        fn postgres() {
            $crate::skipped(concat!(module_path!(), "::postgres"), $why);
        }
    };
    (@postgres [$($other:tt)*] $db:ident $body:block) => {
        #[cfg(feature = "postgres")]
        #[test]
        fn postgres() {
            $crate::conformance!(@run $crate::postgres::Database, $db $body);
        }
    };
    (@run $database:ty, $db:ident $body:block) => {
        type Db = $database;
        #[allow(dead_code, reason = "only tests with job types name it")]
        type Connection = <Db as $crate::TestDb>::Connection;
        fn body($db: &mut Db) $body
        body(&mut <Db as $crate::TestDb>::new());
    };
}
