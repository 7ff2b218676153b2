//! The command line. None of this gets to a database.

use std::path::Path;

use crate::program::{Said, command, said};

fn used(url: &str, paths: &[&Path]) -> Said {
    said(command(url, paths).spawn().expect("import starts"))
}

#[test]
fn wrong_usage_ends_with_two_and_says_what_is_wrong() {
    let data = crate::program::shipped_data();
    let cases: [(&str, &[&Path], &str); 4] = [
        ("unused.db", &[], "<PATH>"),
        (
            "unused.db",
            &[Path::new("/nowhere/to/be.csv")],
            "/nowhere/to/be.csv: No such file",
        ),
        ("mysql://host/name", &[&data], "no backend for mysql://"),
        (":memory:", &[&data], "has to be a file"),
    ];
    for (url, paths, message) in cases {
        let said = used(url, paths);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        assert!(said.errors.contains(message), "no {message:?} in {}", said.errors);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_database_that_cannot_be_opened_ends_with_one() {
    let said = used("/nowhere/to/be.db", &[&crate::program::shipped_data()]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.errors.contains("cannot open the database"), "{said:?}");
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_program_without_postgresql_says_so() {
    let said = used("postgres://host/name", &[&crate::program::shipped_data()]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(
        said.errors
            .contains("built without PostgreSQL: build it with --features postgres"),
        "{said:?}"
    );
}
