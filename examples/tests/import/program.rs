//! Starting `import`, and the files that it is given.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use leasehold_tests::TestDb;
use tempfile::TempDir;

/// A folder with CSV files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    /// A folder with `files` files of `rows` rows each, every row different from all others.
    pub(crate) fn generated(files: usize, rows: usize) -> Self {
        let folder = Self::new();
        for file in 0..files {
            let lines: String = (0..rows).map(|row| format!("{file},{row}\n")).collect();
            folder.write(&format!("{file:04}.csv"), format!("file,row\n{lines}"));
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), content).expect("the file can be written");
    }
}

/// The records that [`Folder::generated`] leads to, in the order of files and lines.
pub(crate) fn generated_records(files: usize, rows: usize) -> Vec<String> {
    let record = |file, row| format!(r#"{{"file":"{file}","row":"{row}"}}"#);
    (0..files)
        .flat_map(|file| (0..rows).map(move |row| record(file, row)))
        .collect()
}

/// What is in the database, in the order of files and lines.
pub(crate) fn records(db: &mut impl TestDb) -> Vec<String> {
    let query = "SELECT record FROM imported_rows ORDER BY file, line LIMIT 1000000";
    db.texts(query).into_iter().flatten().collect()
}

/// The folder of the data that the README's first command imports.
pub(crate) fn shipped_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// What the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Said {
    /// The first table's numbers: files, imported, already there, failed, rows.
    #[track_caller]
    pub(crate) fn totals(&self) -> [i64; 5] {
        let row = self
            .output
            .lines()
            .find(|line| line.contains(|c: char| c.is_ascii_digit()));
        let row = row.unwrap_or_else(|| panic!("no numbers in {self:?}"));
        let numbers: Vec<i64> = row
            .split(['│', '┆'])
            .filter_map(|cell| cell.trim().parse().ok())
            .collect();
        numbers
            .try_into()
            .unwrap_or_else(|_| panic!("not five numbers in {self:?}"))
    }
}

/// Starts the program on a database.
pub(crate) fn start(db: &impl TestDb, paths: &[&Path]) -> Child {
    command(&db.url(), paths).spawn().expect("import starts")
}

/// Runs it to its end.
pub(crate) fn run(db: &impl TestDb, paths: &[&Path]) -> Said {
    said(start(db, paths))
}

pub(crate) fn command(url: &str, paths: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_import"));
    command.args(["--database", url]).args(paths).env_remove("RUST_LOG");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits for the end.
pub(crate) fn said(program: Child) -> Said {
    let output = program.wait_with_output().expect("import ends");
    Said {
        status: output.status,
        output: String::from_utf8(output.stdout).expect("the output is UTF-8"),
        errors: String::from_utf8(output.stderr).expect("the messages are UTF-8"),
    }
}
