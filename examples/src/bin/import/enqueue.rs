//! One job for each file whose content is not in the database yet.

use std::path::PathBuf;

use leasehold::{EnqueueError, EnqueueOptions, Job as _};

use crate::find::Found;
use crate::job::ImportFile;
use crate::tables::Tables;

/// A given file, and how it stands before the jobs run.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) shown: PathBuf,
    pub(crate) standing: Standing,
}

#[derive(Debug)]
pub(crate) enum Standing {
    /// Imported by an earlier run.
    AlreadyThere { rows: i64 },
    /// A job imports it: a new one, or one that another run has enqueued.
    Enqueued {
        path: String,
        content_hash: String,
        id: i64,
    },
    /// It cannot be read.
    Failed { why: String },
}

/// Enqueues what is missing, all of it in one transaction.
pub(crate) fn enqueue<C: Tables>(conn: &mut C, found: Vec<Found>) -> Result<Vec<Given>, EnqueueError> {
    let mut given = Vec::new();
    let (mut missing, mut jobs) = (Vec::new(), Vec::new());
    for Found { shown, job } in found {
        match job {
            Ok(job) => match conn
                .imported(&job.path)?
                .filter(|file| file.content_hash == job.content_hash)
            {
                Some(file) => given.push(Given {
                    shown,
                    standing: Standing::AlreadyThere { rows: file.rows },
                }),
                None => {
                    missing.push(shown);
                    jobs.push(job);
                }
            },
            Err(why) => given.push(Given {
                shown,
                standing: Standing::Failed { why },
            }),
        }
    }
    let enqueued = ImportFile::enqueue_all(&jobs, conn, &EnqueueOptions::new())?;
    for ((shown, ImportFile { path, content_hash }), enqueued) in missing.into_iter().zip(jobs).zip(enqueued) {
        given.push(Given {
            shown,
            standing: Standing::Enqueued {
                path,
                content_hash,
                id: enqueued.id(),
            },
        });
    }
    given.sort_by(|one, other| one.shown.cmp(&other.shown));
    Ok(given)
}
