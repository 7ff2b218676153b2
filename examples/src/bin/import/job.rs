//! The job: one file with one content.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use leasehold::{Handler, Job, JobError, LeaseGuard, Outcome};
use serde::{Deserialize, Serialize};

use crate::read;
use crate::tables::{ImportedFile, Tables};

/// Imports a file, if it still has the content that it had when it was enqueued.
///
/// Equal jobs that have not ended are one job, whoever enqueues them. The lease is how long a killed process holds up a
/// file. A kill uses up an attempt, so there are many of them; a broken file is discarded at its first.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(
    kind = "import-file",
    queue = "import",
    unique(by = "path, content_hash"),
    max_attempts = 100,
    backoff = "exponential(1s..30s)",
    lease = "10s"
)]
pub(crate) struct ImportFile {
    pub(crate) path: String,
    pub(crate) content_hash: String,
}

for_each_backend! {
    impl Handler<Connection> for ImportFile {
        fn run<'j>(self, mut lease: LeaseGuard<'j, Connection>, _: &()) -> Outcome<'j> {
            // Another process may have imported it between our look at the table and our enqueue.
            let before = lease.read(|conn| conn.imported(&self.path))?;
            if before.is_some_and(|before| before.content_hash == self.content_hash) {
                return lease.finish();
            }
            // Read before the commit: on SQLite that holds the one write lock.
            let (seen, content) = self.content()?;
            let rows = read::rows(&content).map_err(JobError::discard)?;
            let file = ImportedFile {
                path: self.path,
                content_hash: self.content_hash,
                rows: i64::try_from(rows.len())?,
                generation: lease.generation(),
            };
            // The rows, the file's row and the completion of the job: all of them, or none.
            lease.commit(|tx| {
                tx.replace(&file, &rows)?;
                // Asked while we hold the file's row, so an import of newer content comes after ours.
                if !is_unchanged(&file.path, &seen) {
                    return Err(JobError::retry("the file changed while it was imported"));
                }
                Ok(())
            })
        }
    }
}

impl ImportFile {
    /// The file's bytes, and what the file system said of it before. What another attempt would not mend is discarded.
    fn content(&self) -> Result<(Metadata, Vec<u8>), JobError> {
        let read = fs::metadata(&self.path).and_then(|seen| Ok((seen, fs::read(&self.path)?)));
        let (seen, content) = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => JobError::discard("the file is gone"),
            _ => JobError::discard(format_args!("cannot read the file: {error}")),
        })?;
        if read::content_hash(&content) != self.content_hash {
            return Err(JobError::discard(
                "the file changed after it was enqueued: import it again",
            ));
        }
        Ok((seen, content))
    }
}

fn is_unchanged(path: impl AsRef<Path>, before: &Metadata) -> bool {
    let stamp = |seen: &Metadata| (seen.len(), seen.modified().ok());
    fs::metadata(path).is_ok_and(|now| stamp(&now) == stamp(before))
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    use diesel::SqliteConnection;
    use leasehold::testing::Runner;
    use leasehold::{Schema, inspect};

    use super::*;

    /// Enqueues a job for a file with the content `given`, runs it on what `then` makes of the file, and tells why it was
    /// discarded.
    fn discarded(given: &str, then: impl FnOnce(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let (url, file) = (folder.path().join("import.db"), folder.path().join("a.csv"));
        let mut conn = crate::database::open::<SqliteConnection>(url.to_str().unwrap()).unwrap();
        fs::write(&file, given).unwrap();
        let job = ImportFile {
            path: file.to_str().unwrap().to_owned(),
            content_hash: read::content_hash(given.as_bytes()),
        };
        let id = job.enqueue(&mut conn).unwrap().id();
        then(&file);
        let counts = Runner::new(()).register::<ImportFile>().drain(&mut conn).unwrap();
        assert_eq!((counts.discarded, counts.retried), (1, 0));
        assert!(conn.imported(&job.path).unwrap().is_none());
        inspect::job(&mut conn, &Schema::default(), id)
            .unwrap()
            .unwrap()
            .reason
            .unwrap()
    }

    #[test]
    fn a_file_that_went_or_changed_since_its_enqueue_is_discarded_with_the_reason() {
        let gone = discarded("a\n1\n", |file| fs::remove_file(file).unwrap());
        assert_eq!(gone, "the file is gone");
        let changed = discarded("a\n1\n", |file| fs::write(file, "a\n2\n").unwrap());
        assert_eq!(changed, "the file changed after it was enqueued: import it again");
        let became_a_folder = discarded("a\n1\n", |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        });
        assert!(
            became_a_folder.starts_with("cannot read the file: "),
            "{became_a_folder}"
        );
    }
}
