//! The log lines in the sources: one about a job or an event begins with what happened, and then names it by the same fields.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text and the arguments of each line that a source logs.
fn lines(source: &str) -> Vec<(&str, &str)> {
    let calls = source.split("log::").skip(1).filter(|rest| {
        let level = rest.split('!').next().unwrap_or_default();
        ["error", "warn", "info", "debug", "trace"].contains(&level)
    });
    calls
        .filter_map(|call| {
            let (_, rest) = call.split_once('"')?;
            let end = rest.match_indices('"').find(|(at, _)| !rest[..*at].ends_with('\\'))?.0;
            let (_, after) = rest.split_at(end);
            Some((&rest[..end], after.split(';').next().unwrap_or_default()))
        })
        .collect()
}

/// Whether it names a job or an event.
fn names_one(text: &str, arguments: &str) -> bool {
    text.contains("{job}") || text.contains("{event}") || arguments.contains("info(")
}

fn has_the_form(text: &str) -> bool {
    let words = text.split(" {").next().unwrap_or_default();
    let starts = words.chars().all(|c| c.is_ascii_lowercase() || c == ' ') && !words.is_empty();
    let rest = text.strip_prefix(words).unwrap_or_default();
    starts && [" {job}", " {event}", " {}"].iter().any(|name| rest.starts_with(name))
}

#[test]
fn every_log_line_about_a_job_says_what_happened_and_then_which_job() {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../queue/src"), &mut found);
    let (mut about_jobs, mut other) = (0, Vec::new());
    for path in found {
        let source = fs::read_to_string(&path).unwrap();
        for (text, arguments) in lines(&source) {
            if names_one(text, arguments) {
                about_jobs += 1;
                if !has_the_form(text) {
                    other.push(format!("{}: {text}", path.display()));
                }
            }
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    assert!(about_jobs > 25, "{about_jobs}");
}

#[test]
fn a_line_of_another_form_is_found() {
    let source =
        "log::warn!(\"{}: late \\\"so\\\"\", held.info()); log::info!(\"late {job} after={after:?}: {error}\");
        log::error!(\"a hook panicked\"); x.log::y(\"no\");";
    let lines = lines(source);
    let told: Vec<_> = lines
        .iter()
        .map(|(text, arguments)| (names_one(text, arguments), has_the_form(text)))
        .collect();
    assert_eq!(told, [(true, false), (true, true), (false, false)]);
}
