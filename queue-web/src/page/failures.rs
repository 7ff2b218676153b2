//! What failed of late, by what went wrong: one kind that fails a hundred times leaves the others in sight.

use std::collections::HashMap;

use leasehold::inspect::FailureRecord;
use maud::{Markup, html};

use crate::page::{Look, number, table};
use crate::{texts, time};

/// Groups that are shown.
const SHOWN: usize = 10;
/// Letters of an error that are shown; the job's page has all of it.
const LETTERS: usize = 200;
/// Letters that are enough to look for others of a group.
const ENOUGH: usize = 8;

/// Failed attempts that differ in numbers at the most.
struct Group<'f> {
    newest: &'f FailureRecord,
    count: u64,
}

pub(super) fn failures(look: &Look<'_>, failures: &[FailureRecord]) -> Markup {
    let groups = grouped(failures);
    let rows = html! {
        @for Group { newest, count } in groups.iter().take(SHOWN) {
            tr {
                td.number { (number(*count)) }
                th scope="row" { a href=(look.to(&format!("/jobs/{}", newest.job))) { (newest.job) } }
                td { (newest.kind) }
                td { (newest.queue) }
                td { (time::show(look.now, newest.error.at)) }
                td.text { a href=(alike(look, newest)) { (newest.error.cause) ": " (first_line(&newest.error.error)) } }
            }
        }
    };
    let heads = [
        texts::TIMES,
        texts::NEWEST,
        texts::KIND,
        texts::QUEUE,
        texts::WHEN,
        texts::ERROR_TEXT,
    ];
    let left = groups.len().saturating_sub(SHOWN) as u64;
    html! {
        @if failures.is_empty() {
            p { (texts::NO_FAILURES) }
        } @else {
            (table(texts::FAILURES, &heads, &rows))
            p.hint {
                (texts::OF_ATTEMPTS) " " (number(failures.len() as u64)) "."
                @if left > 0 { " " (number(left)) " " (texts::NOT_SHOWN) }
            }
        }
    }
}

/// The newest first, as they come.
fn grouped(failures: &[FailureRecord]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known: HashMap<(&str, &str, String), usize> = HashMap::new();
    for failure in failures {
        let key = (
            failure.kind.as_str(),
            failure.error.cause.as_str(),
            numberless(&first_line(&failure.error.error)),
        );
        let at = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.count += 1,
            None => groups.push(Group {
                newest: failure,
                count: 1,
            }),
        }
    }
    groups
}

/// The jobs of this kind whose errors begin alike.
fn alike(look: &Look<'_>, failure: &FailureRecord) -> String {
    let line = first_line(&failure.error.error);
    let begin = line
        .split(|c: char| c.is_ascii_digit())
        .next()
        .unwrap_or_default()
        .trim_end();
    let text = if begin.chars().count() < ENOUGH {
        line.as_str()
    } else {
        begin
    };
    let pairs = [
        ("kind", Some(failure.kind.as_str().into())),
        ("error", Some(text.into())),
    ];
    look.link("/jobs", &pairs)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(LETTERS).collect()
}

/// With one sign for each row of digits.
fn numberless(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_digit() {
            false => plain.push(c),
            true if plain.ends_with('#') => {}
            true => plain.push('#'),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_alike() {
        assert_eq!(numberless("order 17 of 2026-12-01"), "order # of #-#-#");
        assert_eq!(numberless("no number"), "no number");
    }
}
