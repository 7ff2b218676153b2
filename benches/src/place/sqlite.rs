use diesel::prelude::*;
use leasehold::Worker;

use super::{Bench, Leftover, Number, OneText, Place};
use crate::cost::{self, Spent};
use crate::jobs::Kind;
use crate::raw::sqlite::Sqlite;
use crate::{Answer, Report};

impl Bench for SqliteConnection {
    type Raw = Sqlite;

    const TABLE: &'static str = "CREATE TABLE bench_rows (id INTEGER PRIMARY KEY, job INTEGER NOT NULL);
        PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL";

    const ONE_WRITER: bool = true;

    fn create(_: &Place) -> Answer<(String, Leftover)> {
        // Beside the reports: a directory for temporary files may be in memory, where nothing is ever synced.
        let directory = tempfile::tempdir_in(crate::report::directory()?)?;
        let url = directory.path().join("bench.sqlite").display().to_string();
        Ok((url, Leftover::Files(directory)))
    }

    fn register(worker: Worker<Self, ()>, kind: Kind) -> Worker<Self, ()> {
        kind.register(worker)
    }

    fn describe(&mut self, report: &mut Report) -> Answer {
        let version: OneText = diesel::sql_query("SELECT sqlite_version() AS text").get_result(self)?;
        report.note("SQLite", format!("{} (WAL, synchronous = FULL)", version.text));
        Ok(())
    }

    fn completing_transactions(&mut self) -> Answer<Option<i64>> {
        Ok(None)
    }

    fn claims(&mut self) -> Answer<i64> {
        let asked = "SELECT count(DISTINCT lease_token) AS number FROM leasehold_finished_jobs";
        Ok(diesel::sql_query(asked).get_result::<Number>(self)?.number)
    }

    fn spent(&mut self) -> Answer<Vec<Spent>> {
        Ok(cost::written().into_iter().collect())
    }
}
