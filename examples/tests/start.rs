//! The guide's first chapter, as it is told there.

use std::fs;
use std::path::Path;
use std::process::Command;

use diesel::prelude::*;
use leasehold::inspect::{self, Filter, State};
use leasehold::{Schema, manage};

/// What the program prints in `folder`.
fn words(folder: &Path, files: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_words"))
        .args(files)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn the_first_program_runs_fails_is_found_mended_and_requeued() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::default();
    fs::write(folder.path().join("hamlet.txt"), "to be or not to be\n").unwrap();
    assert_eq!(
        words(folder.path(), &["hamlet.txt"]),
        "1 completed, 0 retried, 0 discarded\n"
    );
    assert_eq!(
        words(folder.path(), &["macbeth.txt"]),
        "0 completed, 2 retried, 1 discarded\n"
    );

    let url = folder.path().join("words.db").display().to_string();
    let mut conn = SqliteConnection::establish(&url).unwrap();
    let discarded = Filter::new().state(State::Discarded);
    let page = inspect::search(&mut conn, &schema, &discarded, None, 10).unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [2]);
    assert_eq!(inspect::errors(&mut conn, &schema, 2).unwrap().len(), 3);

    fs::write(
        folder.path().join("macbeth.txt"),
        "tomorrow and tomorrow and tomorrow\n",
    )
    .unwrap();
    manage::requeue(&mut conn, &schema, 2, "me").unwrap();
    assert_eq!(words(folder.path(), &[]), "1 completed, 0 retried, 0 discarded\n");
    let counted: i32 = diesel::dsl::sql::<diesel::sql_types::Integer>("SELECT sum(words) FROM counts")
        .get_result(&mut conn)
        .unwrap();
    assert_eq!(counted, 11);
}
