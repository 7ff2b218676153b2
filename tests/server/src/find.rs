//! Where the server's binaries are, on the systems that we know.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::BINARIES_VARIABLE;

/// The oldest major version that leasehold runs on.
const OLDEST: u32 = 13;

/// A PostgreSQL server's binaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The directory that has `initdb` and `postgres`.
    pub directory: PathBuf,
    /// The major version.
    pub major: u32,
}

/// Finds the binaries of major version `major`, or else of any version that leasehold runs on.
///
/// # Errors
///
/// If there are none: the text says what to do.
pub fn find(major: Option<u32>) -> Result<Binaries, String> {
    candidates()
        .filter_map(|directory| {
            let major = major_version(&directory)?;
            Some(Binaries { directory, major })
        })
        .find(|found| found.major >= OLDEST && major.is_none_or(|wanted| wanted == found.major))
        .ok_or_else(|| {
            let wanted = major.map_or_else(|| format!("{OLDEST} or newer"), |major| major.to_string());
            format!(
                "no server binaries of PostgreSQL {wanted} were found.\n\
                 Install the PostgreSQL server (Debian: `apt-get install postgresql`, Homebrew: `brew install postgresql`),\n\
                 or set {BINARIES_VARIABLE} to the directory that has `initdb` and `postgres`.\n\
                 `./test` does it by itself where it can."
            )
        })
}

/// Directories that may have the binaries, the most explicit first.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let stated = env::var_os(BINARIES_VARIABLE).map(PathBuf::from);
    let configured = Command::new("pg_config").arg("--bindir").output().ok();
    let configured = configured.and_then(|output| Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim())));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = env::split_paths(&path).collect();
    stated
        .into_iter()
        .chain(configured)
        .chain(on_path)
        .chain(newest_first("/usr/lib/postgresql", ""))
        .chain(newest_first("/usr", "pgsql-"))
        .chain(newest_first("/opt/homebrew/opt", "postgresql@"))
        .chain(newest_first("/usr/local/opt", "postgresql@"))
        .chain([PathBuf::from("/usr/local/pgsql/bin")])
        .chain([downloaded().join("pgserver/pginstall/bin")])
}

/// Where `./test` unpacks the binaries that it had to download.
pub(crate) fn downloaded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.postgres")
}

/// `bin` below the directories in `parent` that are named `prefix` and a version.
fn newest_first(parent: &str, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| Reverse(*version));
    versions.into_iter().map(|(_, directory)| directory).collect()
}

/// The major version of the server in `directory`, if there is one. libpq's own package has `pg_config` and no server.
fn major_version(directory: &Path) -> Option<u32> {
    if !directory.join("initdb").is_file() || !directory.join("postgres").is_file() {
        return None;
    }
    let output = Command::new(directory.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    parse_version(&String::from_utf8(output.stdout).ok()?)
}

/// Reads `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)`, also `17beta1`.
fn parse_version(text: &str) -> Option<u32> {
    let version = text.split_once("(PostgreSQL)")?.1.trim_start();
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn the_major_version_is_read_from_releases_and_betas() {
        assert_eq!(
            parse_version("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(parse_version("postgres (PostgreSQL) 16.2\n"), Some(16));
        assert_eq!(parse_version("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(parse_version("postgres: no such thing\n"), None);
    }
}
