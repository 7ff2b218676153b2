//! What the project's documents say of its files.

use std::path::{Path, PathBuf};
use std::{fs, io};

#[path = "documents/book.rs"]
mod book;

/// Every document of the project, but for what builds leave behind.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" && name != "node_modules" && !name.to_string_lossy().starts_with('.') {
            documents(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The targets of the links in a document, code left out.
fn links(document: &str) -> Vec<&str> {
    let prose = document.split("\n```").step_by(2);
    let targets = prose.flat_map(|part| part.split("](").skip(1));
    targets.filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn leads_somewhere(from: &Path, link: &str) -> bool {
    if link.starts_with("https://") {
        return true;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        from.to_owned()
    } else {
        from.with_file_name(file)
    };
    if heading.is_empty() {
        return target.exists();
    }
    let text = fs::read_to_string(target).unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor(line) == heading)
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    documents(root, &mut found).unwrap();
    let mut dead = Vec::new();
    let mut checked = 0;
    for document in &found {
        let text = fs::read_to_string(document).unwrap();
        for link in links(&text) {
            checked += 1;
            if !leads_somewhere(document, link) {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(checked > 50, "{checked} links in {} documents", found.len());
}

#[test]
fn a_dead_link_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("a.md");
    let text =
        "# One thing, and another\n[a](a.md) [b](b.md#c)\n```\nlinks[0](1)\n```\n[c](#one-thing-and-another) [d](#d)\n";
    fs::write(&document, text).unwrap();
    let links = links(text);
    assert_eq!(links, ["a.md", "b.md#c", "#one-thing-and-another", "#d"]);
    let dead: Vec<_> = links
        .into_iter()
        .filter(|link| !leads_somewhere(&document, link))
        .collect();
    assert_eq!(dead, ["b.md#c", "#d"]);
}

/// The tests that a document names as `file.rs::test`.
fn named_tests(document: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = document.split('`').skip(1).step_by(2);
    code.filter_map(|code| {
        code.split_once(".rs::")
            .map(|(_, test)| (code.strip_suffix(&format!("::{test}")).unwrap_or(code), test))
    })
}

/// Whether a source has a test of this name: one that `cargo test` finds, or one that `conformance!` writes.
fn has_test(source: &str, test: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let begins = [format!("fn {test}()"), format!("fn {test}(db: &mut Db)")];
    lines.iter().enumerate().any(|(number, line)| {
        let [plain, conforms] = begins.each_ref().map(|begin| line.starts_with(begin));
        conforms
            || plain
                && lines[..number]
                    .iter()
                    .rev()
                    .take_while(|line| !line.is_empty())
                    .any(|line| *line == "#[test]")
    })
}

/// The rows of a document's last table: its first cell, and whether it names a test.
fn last_table(document: &str) -> impl Iterator<Item = (&str, bool)> {
    let rows = document
        .trim_end()
        .rsplit("\n\n")
        .next()
        .unwrap_or_default()
        .lines()
        .skip(2);
    rows.map(|row| {
        (
            row.split('|').nth(1).unwrap_or_default().trim(),
            named_tests(row).count() > 0,
        )
    })
}

/// The tests that a document links to, [`test`](file.rs): their names and files.
fn linked_tests(document: &str) -> impl Iterator<Item = (&str, &str)> {
    let links = document
        .split("[`")
        .skip(1)
        .filter_map(|rest| rest.split_once(')')?.0.split_once("`]("));
    links.filter(|(test, file)| file.ends_with(".rs") && test.contains('_') && !test.contains(['.', ':', '/', '(']))
}

#[test]
fn every_test_that_the_locking_guide_links_to_is_in_that_file() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/locking.md");
    let text = fs::read_to_string(&guide).unwrap();
    let linked: Vec<_> = linked_tests(&text).collect();
    let missing: Vec<_> = linked
        .iter()
        .filter(|(test, file)| {
            !has_test(
                &fs::read_to_string(guide.with_file_name(file)).unwrap_or_default(),
                test,
            )
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(linked.len() > 20, "{linked:?}");
}

#[test]
fn a_link_to_a_test_is_found_by_its_name() {
    let text = "[`a_test`](x.rs), [`Type`](y.rs) and\n[`b_test`](../y.rs), [`folder`](z)";
    assert_eq!(
        linked_tests(text).collect::<Vec<_>>(),
        [("a_test", "x.rs"), ("b_test", "../y.rs")]
    );
}

#[test]
fn every_test_that_the_tests_readme_names_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(folder.join("README.md")).unwrap();
    let named: Vec<_> = named_tests(&text).collect();
    let missing: Vec<_> = named
        .iter()
        .filter(|(file, test)| !has_test(&fs::read_to_string(folder.join(file)).unwrap_or_default(), test))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let reports: Vec<_> = last_table(&text).collect();
    let untested: Vec<_> = reports.iter().filter(|(_, tested)| !tested).collect();
    assert!(untested.is_empty(), "{untested:?}");
    assert!(
        reports.len() >= 30 && named.len() >= 60,
        "{} in {} rows",
        named.len(),
        reports.len()
    );
}

#[test]
fn a_test_that_is_not_there_is_found() {
    let text =
        "`a/b.rs::one` and `c.rs::two`, `no test`\n\n| a | b |\n| - | - |\n| x#1 | `c.rs::two` |\n| y#2 | none |\n";
    assert_eq!(
        named_tests(text).collect::<Vec<_>>(),
        [("a/b.rs", "one"), ("c.rs", "two"), ("c.rs", "two")]
    );
    assert_eq!(last_table(text).collect::<Vec<_>>(), [("x#1", true), ("y#2", false)]);
    let source = "#[test]\nfn one() {\n}\n\nfn helper() {\n}\n\nconformance!(\n    fn two(db: &mut Db) {\n";
    for (test, is_there) in [
        ("one", true),
        ("two", true),
        ("helper", false),
        ("on", false),
        ("three", false),
    ] {
        assert_eq!(has_test(source, test), is_there, "{test}");
    }
}

#[test]
fn the_suite_is_run_on_more_than_one_major_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let checks = fs::read_to_string(root.join(".ci/run")).unwrap();
    let runs: Vec<&str> = checks.lines().filter(|line| line.starts_with("./test")).collect();
    let (pinned, found): (Vec<&str>, Vec<&str>) = runs.iter().partition(|run| run.contains("--postgres "));
    // The one of the machine, and a certain one.
    assert!(!pinned.is_empty() && found.contains(&"./test"), "{runs:?}");
    assert!(
        pinned.iter().all(|run| !run.contains("--test ")),
        "only a part: {runs:?}"
    );
}

/// Every Rust source of the workspace's tests.
fn sources(folder: &Path, found: &mut String) {
    let entries = folder.read_dir().expect("the tests are in folders");
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&fs::read_to_string(path).expect("a source is text"));
        }
    }
}

/// The facts that the fence, row locks and chosen rows rest on are numbered: S0 (ownership) to 32, S2 (row locks) to 16, S4
/// (chosen rows) to 14.
#[test]
fn every_numbered_fact_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = String::new();
    sources(root, &mut tests);
    sources(&root.join("../examples"), &mut tests);
    let facts = [("s0", 32), ("s2", 16), ("s4", 14)];
    let numbers = facts
        .iter()
        .flat_map(|(group, last)| (1..=*last).map(move |number| format!("{group}_{number:02}")));
    let missing: Vec<String> = numbers
        .filter(|number| {
            let named = |name: &str| {
                name.strip_prefix(number.as_str())
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
            };
            !tests.split("fn ").any(named)
        })
        .collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
