//! Whether the tables are as the migrations make them.

use std::collections::HashMap;

use diesel::result::QueryResult;

use super::{Difference, Finding};
use crate::backend::{Backend, CatalogueRow};
use crate::migrate::PROGRAM;
use crate::schema::Schema;

/// Which migrations the tables have.
pub(super) enum Tables {
    Missing(String),
    Refuse(i32),
    Pending(Vec<String>),
    Newer(Vec<String>),
    Current,
}

impl Tables {
    pub(super) fn finding(&self) -> Option<Finding> {
        Some(match self {
            Self::Missing(schema) => Finding::TablesMissing { schema: schema.clone() },
            Self::Refuse(minimum) => Finding::ProgramTooOld { minimum: *minimum },
            Self::Pending(versions) => Finding::MigrationsPending {
                versions: versions.clone(),
            },
            Self::Newer(versions) => Finding::MigrationsUnknown {
                versions: versions.clone(),
            },
            Self::Current => return None,
        })
    }

    /// Whether our statements find what they name.
    pub(super) fn are_usable(&self) -> bool {
        matches!(self, Self::Newer(_) | Self::Current)
    }

    /// Whether it is known what they should look like.
    pub(super) fn are_known(&self) -> bool {
        matches!(self, Self::Current)
    }
}

pub(super) fn look<C: Backend>(conn: &mut C, schema: &Schema) -> QueryResult<Tables> {
    let applied = match conn.has_ledger(schema)? {
        true => conn.applied(schema)?,
        false => Vec::new(),
    };
    if applied.is_empty() {
        return Ok(Tables::Missing(schema.name().to_owned()));
    }
    let minimum = conn.minimum_program(schema)?;
    if minimum > PROGRAM {
        return Ok(Tables::Refuse(minimum));
    }
    let known: Vec<&str> = C::MIGRATIONS.iter().map(|script| script.version()).collect();
    let pending = known
        .iter()
        .filter(|version| !applied.iter().any(|one| one == *version));
    let pending: Vec<String> = pending.map(|version| (*version).to_owned()).collect();
    let newer: Vec<String> = applied
        .into_iter()
        .filter(|version| !known.contains(&version.as_str()))
        .collect();
    Ok(match (pending.is_empty(), newer.is_empty()) {
        (false, _) => Tables::Pending(pending),
        (true, false) => Tables::Newer(newer),
        (true, true) => Tables::Current,
    })
}

/// Which indexes of the migrations are missing, or were left by a build that failed.
pub(super) fn indexes<C: Backend>(conn: &mut C, schema: &Schema) -> QueryResult<Vec<Finding>> {
    let there = conn.index_rows(schema)?;
    let mut findings = Vec::new();
    for script in C::MIGRATIONS {
        let text = schema.render_once(script.up);
        for index in index_names(&text) {
            match there.iter().find(|row| row.name == index) {
                Some(row) if row.valid => {}
                found => findings.push(Finding::Index {
                    name: index.to_owned(),
                    invalid: found.is_some(),
                }),
            }
        }
    }
    Ok(findings)
}

/// The names of the indexes that a script makes.
fn index_names(script: &str) -> impl Iterator<Item = &str> {
    script.lines().filter_map(|line| {
        let rest = line
            .strip_prefix("CREATE INDEX ")
            .or_else(|| line.strip_prefix("CREATE UNIQUE INDEX "))?;
        rest.split_whitespace().next()
    })
}

/// What else differs from what the migrations make. Tables and functions of other names are somebody else's business, and an
/// index that is missing is told by [`indexes`].
pub(super) fn drift<C: Backend>(conn: &mut C, schema: &Schema) -> QueryResult<Vec<Finding>> {
    let made = C::made_by_migrations(schema)?;
    let there = conn.catalogue(schema)?;
    let key = |row: &CatalogueRow| (row.what.clone(), row.name.clone());
    let found: HashMap<_, &CatalogueRow> = there.iter().map(|row| (key(row), row)).collect();
    let known: HashMap<_, &CatalogueRow> = made.iter().map(|row| (key(row), row)).collect();
    let tables: Vec<&str> = made
        .iter()
        .filter(|row| row.what == "table")
        .map(|row| row.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for row in &made {
        let difference = match found.get(&key(row)) {
            Some(there) if there.definition == row.definition => continue,
            Some(_) => Difference::Changed,
            None if row.what == "index" || is_of_a_missing_table(row, &found) => continue,
            None => Difference::Missing,
        };
        findings.push(drifted(row, difference));
    }
    let added = there
        .iter()
        .filter(|row| !known.contains_key(&key(row)) && row.table().is_some_and(|table| tables.contains(&table)));
    findings.extend(added.map(|row| drifted(row, Difference::Added)));
    Ok(without_doubles(findings))
}

fn is_of_a_missing_table(row: &CatalogueRow, found: &HashMap<(String, String), &CatalogueRow>) -> bool {
    row.table()
        .is_some_and(|table| !found.contains_key(&("table".to_owned(), table.to_owned())))
}

fn drifted(row: &CatalogueRow, difference: Difference) -> Finding {
    Finding::Drift {
        what: row.what.clone(),
        name: row.name.clone(),
        difference,
    }
}

/// A table is another one where one of its columns is: that one says more.
fn without_doubles(mut findings: Vec<Finding>) -> Vec<Finding> {
    let columns: Vec<String> = findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Drift { what, name, .. } if what == "column" => name.split('.').next().map(str::to_owned),
            _ => None,
        })
        .collect();
    findings.retain(|finding| match finding {
        Finding::Drift {
            what,
            name,
            difference: Difference::Changed,
        } => what != "table" || !columns.contains(name),
        _ => true,
    });
    findings
}
