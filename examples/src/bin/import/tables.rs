//! The tables that files are imported into.

use diesel::prelude::*;
use leasehold::{AsBackend, Backend};

use crate::database::Dialect;
use crate::read::Row;

diesel::table! {
    imported_files (path) {
        path -> Text,
        content_hash -> Text,
        rows -> BigInt,
        generation -> BigInt,
    }
}

diesel::table! {
    imported_rows (file, line) {
        file -> Text,
        line -> BigInt,
        record -> Text,
    }
}

/// One imported file.
#[derive(Debug, Insertable, AsChangeset, Queryable, Selectable)]
#[diesel(table_name = imported_files)]
pub(crate) struct ImportedFile {
    pub(crate) path: String,
    pub(crate) content_hash: String,
    pub(crate) rows: i64,
    /// The generation of the lease that wrote it: which execution of the job it was.
    pub(crate) generation: i64,
}

/// For both backends.
pub(crate) const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS imported_files (
        path TEXT NOT NULL PRIMARY KEY,
        content_hash TEXT NOT NULL,
        rows BIGINT NOT NULL,
        generation BIGINT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS imported_rows (
        file TEXT NOT NULL,
        line BIGINT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (file, line)
    );
";

/// Rows in one statement: three values each, of which PostgreSQL takes 65,535 and SQLite 32,766.
const BATCH: usize = 1000;

/// What `import` asks of its tables, on either backend.
pub(crate) trait Tables: Backend + AsBackend + Dialect {
    /// What is imported of a file.
    fn imported(&mut self, path: &str) -> QueryResult<Option<ImportedFile>>;

    /// Puts the rows of a file in the place of those it had before, if any.
    fn replace(&mut self, file: &ImportedFile, rows: &[Row]) -> QueryResult<()>;
}

for_each_backend! {
    impl Tables for Connection {
        fn imported(&mut self, path: &str) -> QueryResult<Option<ImportedFile>> {
            imported_files::table.find(path).select(ImportedFile::as_select()).first(self).optional()
        }

        fn replace(&mut self, file: &ImportedFile, rows: &[Row]) -> QueryResult<()> {
            // The file's row first: it makes two imports of one path wait for each other.
            diesel::insert_into(imported_files::table)
                .values(file)
                .on_conflict(imported_files::path)
                .do_update()
                .set(file)
                .execute(self)?;
            diesel::delete(imported_rows::table.filter(imported_rows::file.eq(&file.path))).execute(self)?;
            for rows in rows.chunks(BATCH) {
                let values: Vec<_> = rows.iter().map(|row| (
                    imported_rows::file.eq(&file.path),
                    imported_rows::line.eq(row.line),
                    imported_rows::record.eq(&row.record),
                )).collect();
                diesel::insert_into(imported_rows::table).values(values).execute(self)?;
            }
            Ok(())
        }
    }
}
