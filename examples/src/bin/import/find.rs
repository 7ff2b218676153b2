//! From the paths on the command line to the files to import.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::job::ImportFile;
use crate::read::content_hash;

/// A file that was given.
#[derive(Debug)]
pub(crate) struct Found {
    /// As the user would name it.
    pub(crate) shown: PathBuf,
    /// The job that imports it, or why there is none.
    pub(crate) job: Result<ImportFile, String>,
}

/// The files themselves, and the `*.csv` files in the folders, by name; each file once, however often it was given.
///
/// # Errors
///
/// A text for the user, when a path leads nowhere.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<Found>, String> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for path in paths {
        let listed = list(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for shown in listed {
            // The same for every working folder, and for every machine that has the folder at the same place.
            let file = shown
                .canonicalize()
                .map_err(|error| format!("{}: {error}", shown.display()))?;
            if seen.insert(file.clone()) {
                found.push(Found { job: job(&file), shown });
            }
        }
    }
    Ok(found)
}

fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries: Vec<PathBuf> = fs::read_dir(path)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    let is_csv = |path: &PathBuf| path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("csv")) && path.is_file();
    let mut files: Vec<PathBuf> = entries.into_iter().filter(is_csv).collect();
    files.sort();
    Ok(files)
}

fn job(file: &Path) -> Result<ImportFile, String> {
    let path = file.to_str().ok_or("its path is not UTF-8")?.to_owned();
    let content = fs::read(file).map_err(|error| format!("cannot read the file: {error}"))?;
    Ok(ImportFile {
        path,
        content_hash: content_hash(&content),
    })
}
