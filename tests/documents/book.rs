//! The guide as a book.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The chapters: every text in the folder of the guide but for its table of contents.
fn chapters() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/guide")).expect("the guide is there");
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect()
}

/// Those of `chapters` to which `contents` has not exactly one link.
fn not_linked_once<'c>(chapters: &'c [String], contents: &str) -> Vec<&'c String> {
    let links = super::links(contents);
    let linked = |chapter: &str| links.iter().filter(|link| **link == chapter).count();
    chapters.iter().filter(|chapter| linked(chapter) != 1).collect()
}

#[test]
fn every_chapter_is_reached_from_the_contents() {
    let chapters = chapters();
    for contents in ["SUMMARY.md", "README.md"] {
        let text = fs::read_to_string(root().join("docs/guide").join(contents)).unwrap();
        let mut missing = not_linked_once(&chapters, &text);
        missing.retain(|chapter| contents != "README.md" || *chapter != "README.md");
        assert!(missing.is_empty(), "not once in {contents}: {missing:?}");
    }
    assert!(chapters.len() > 20, "{chapters:?}");
}

#[test]
fn a_chapter_that_is_left_out_or_named_twice_is_found() {
    let chapters = ["a.md", "b.md", "c.md"].map(str::to_owned);
    let contents = "- [A](a.md)\n- [B](b.md)\n  - [B again](b.md)\n";
    assert_eq!(not_linked_once(&chapters, contents), ["b.md", "c.md"]);
}

/// What is written behind the three marks that begin a block of code.
fn fences(chapter: &str) -> impl Iterator<Item = &str> {
    let marked = chapter.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
    marked.step_by(2)
}

/// Every Rust program of the guide is compiled and run: its chapter is in the tests of the library's documentation, and no
/// block is left out there, but for one that is an example program.
#[test]
fn every_chapter_with_a_program_is_run_by_the_tests() {
    let library = fs::read_to_string(root().join("queue/src/lib.rs")).unwrap();
    let mut programs = 0;
    for chapter in chapters() {
        let text = fs::read_to_string(root().join("docs/guide").join(&chapter)).unwrap();
        let rust: Vec<&str> = fences(&text)
            .filter(|info| info.is_empty() || info.starts_with("rust"))
            .collect();
        let run = library.contains(&format!("../../docs/guide/{chapter}\""));
        assert!(rust.is_empty() || run, "{chapter} is not in queue/src/lib.rs");
        let examples = text
            .split("```rust,no_run\n")
            .skip(1)
            .filter(|rest| is_example(rest))
            .count();
        let run = rust.iter().filter(|info| **info == "rust").count() + examples;
        assert_eq!(run, rust.len(), "{chapter} has a block that is not run: {rust:?}");
        programs += rust.len();
    }
    assert!(programs > 20, "{programs}");
}

/// Whether the text begins with an example program.
fn is_example(rest: &str) -> bool {
    let block = rest.split("\n```").next().unwrap_or_default();
    let entries = fs::read_dir(root().join("examples/src/bin")).expect("the examples are there");
    let mut programs = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    programs.any(|program| program.trim_end().ends_with(block))
}

#[test]
fn a_block_that_is_not_run_is_found() {
    let text = "```rust\n```\n\n```sh\n# a\n```\n1. x\n   ```rust,ignore\n   ```\n```\n```\n";
    assert_eq!(fences(text).collect::<Vec<_>>(), ["rust", "sh", "rust,ignore", ""]);
}
