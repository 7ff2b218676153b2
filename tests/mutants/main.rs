//! The fence, weakened in each way that we could think of, and the rule that notices it.
//!
//! A mutant is a switch at run time: the proxy between the library and the server rewrites the statement's text, or, where
//! the fault is in how statements are driven, the test drives them wrongly itself. Each rule holds with the library as it
//! is, and each mutant breaks its rule.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod bench;
#[path = "../requirements/jobs.rs"]
#[expect(dead_code, reason = "what the facts need, and some of it here")]
mod jobs;
mod list;
mod rules;

use bench::Bench;

/// Part of a statement's text, and what it becomes.
type Rewrites<'t> = &'t [(&'t str, &'t str)];

/// Whether the rule holds; what it saw if not.
type Rule = fn(&mut Bench) -> Result<(), String>;

/// The rule holds for the library, and the mutant breaks it; what it said then.
#[track_caller]
fn killed(rewrites: Rewrites<'_>, rule: Rule) -> String {
    assert_eq!(rule(&mut Bench::new(&[])), Ok(()), "the library breaks the rule");
    let mut mutant = Bench::new(rewrites);
    let noticed = rule(&mut mutant).expect_err("the mutant lives");
    for (from, _) in rewrites {
        assert!(mutant.rewrote(from), "nothing that was sent has {from:?}");
    }
    noticed
}
