//! What became of the given files, whoever imported them.

use std::fmt;
use std::path::PathBuf;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use diesel::QueryResult;
use leasehold::Schema;
use leasehold::inspect::{self, State};

use crate::enqueue::{Given, Standing};
use crate::tables::Tables;

/// The table at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    files: usize,
    rows: i64,
    imported: usize,
    already_there: usize,
    failed: Vec<(PathBuf, String)>,
}

impl Report {
    /// Looks every file up in the database.
    pub(crate) fn of<C: Tables>(conn: &mut C, given: Vec<Given>) -> QueryResult<Self> {
        let mut report = Self {
            files: given.len(),
            ..Self::default()
        };
        for Given { shown, standing } in given {
            let ended = match standing {
                Standing::AlreadyThere { rows } => {
                    report.already_there += 1;
                    Ok(rows)
                }
                Standing::Enqueued { path, content_hash, id } => {
                    let imported = conn.imported(&path)?.filter(|file| file.content_hash == content_hash);
                    match imported {
                        Some(file) => {
                            report.imported += 1;
                            Ok(file.rows)
                        }
                        None => Err(why_not(conn, id)?),
                    }
                }
                Standing::Failed { why } => Err(why),
            };
            match ended {
                Ok(rows) => report.rows += rows,
                Err(why) => report.failed.push((shown, why)),
            }
        }
        Ok(report)
    }

    pub(crate) fn is_success(&self) -> bool {
        self.failed.is_empty()
    }
}

/// Why the file of a job is not imported, from what the queue keeps of the job.
fn why_not<C: Tables>(conn: &mut C, id: i64) -> QueryResult<String> {
    let schema = Schema::default();
    let Some(job) = inspect::job(conn, &schema, id)? else {
        return Ok("its job is gone".to_owned());
    };
    Ok(match (job.state, job.reason) {
        (State::Completed, _) => "imported, and replaced by newer content since".to_owned(),
        (State::Discarded | State::Cancelled, Some(reason)) => reason,
        _ => match inspect::errors(conn, &schema, id)?.pop() {
            Some(last) => format!("not yet imported, the last attempt failed: {}", last.error),
            None => "not yet imported: run this again".to_owned(),
        },
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [self.files, self.imported, self.already_there, self.failed.len()].map(|count| count.to_string());
        let mut totals = table(["files", "imported", "already there", "failed", "rows"]);
        totals.add_row(counts.into_iter().chain([self.rows.to_string()]));
        for column in totals.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{totals}")?;
        if !self.failed.is_empty() {
            let mut failed = table(["failed", "why"]);
            failed.add_rows(
                self.failed
                    .iter()
                    .map(|(file, why)| [file.display().to_string(), why.clone()]),
            );
            write!(f, "\n{failed}")?;
        }
        Ok(())
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    table
}
