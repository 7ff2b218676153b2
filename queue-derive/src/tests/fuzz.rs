//! Lists of options of any kind: the macro answers with code or with mistakes, each under a part of what was written.
//!
//! For two seconds, or as many as `LEASEHOLD_FUZZ_SECONDS` says.

use std::io::Write;
use std::time::{Duration, Instant};

use proc_macro2::TokenStream;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use syn::DeriveInput;

use crate::model::JobModel;
use crate::{derive, duration};

const KEYS: &[&str] = &[
    "kind",
    "queue",
    "priority",
    "max_attempts",
    "backoff",
    "lease",
    "timeout",
    "expires",
    "unique",
    "concurrency",
    "rate",
    "serial",
    "schedule",
    "version",
    "migrate",
    "crate",
    "by",
    "per_queue",
    "states",
    "within",
    "on_conflict",
    "max",
    "per",
    "cron",
    "zone",
    "missed",
    "name",
    "payload",
    "kinds",
    "r#kind",
    "r#type",
    "self",
    "super",
    "Kind",
    "ünique",
    "_",
];

const TEXTS: &[&str] = &[
    "send-email",
    "mail",
    "",
    " ",
    "a\\u{0}b",
    "\\n",
    "1s",
    "5m",
    "1h30m",
    "0s",
    "500ms",
    "365d",
    "366d",
    "5 minutes",
    "m5",
    "1m1h",
    "99999999999999999999d",
    "18446744073709551615ms",
    "fixed(30s)",
    "linear(10s..5m)",
    "exponential(1s..1h), jitter 20%",
    "list(1s, 10s)",
    "list()",
    "list(",
    "fixed(",
    "exponential(1h..1s)",
    "jitter 101%",
    "fixed(1s), jitter 999999999999999999999%",
    "to",
    "to, kind",
    "to,",
    ",",
    "to, to",
    "nobody",
    "r#type",
    "0",
    "ready, running",
    "ready, ready",
    "finished",
    "completed",
    "replace",
    "keep",
    "reject",
    "replace and reschedule",
    "0 3 * * *",
    "* * * * * *",
    "0 0 30 2 *",
    "@daily",
    "@never",
    "Europe/Berlin",
    "run once",
    "run all(10)",
    "run all(0)",
    "my_library::leasehold",
    "crate",
    "::",
    "\u{202e}",
    "\u{1f980}",
];

const VALUES: &[&str] = &[
    "1",
    "0",
    "-1",
    "2",
    "1000",
    "1001",
    "40000",
    "-32768",
    "-32769",
    "1_000",
    "0x10",
    "0b1",
    "5u8",
    "5i128",
    "1.5",
    "1e3",
    "340282366920938463463374607431768211456",
    "- -1",
    "-(1)",
    "true",
    "'a'",
    "b'a'",
    "b\"x\"",
    "c\"x\"",
    "r#\"1s\"#",
    "\"1s\"suffix",
    "upgrade",
    "up::grade",
    "<T as U>::f",
    "::f",
    "f::<u8>",
    "f()",
    "|a, b| a",
    "5 minutes",
    "[1, 2]",
    "(1)",
    "{}",
    "{ 1 }",
    "\"a\" + \"b\"",
    "concat!(\"a\")",
    "!",
    "&x",
    "if",
    "_",
    "'static",
    "#",
    "$",
    "..",
    "1..",
    "x as y",
    "return",
    "unsafe {}",
    "async move {}",
    "",
];

/// Without a mistake.
const RIGHT: &[&str] = &[
    "queue = \"mail\"",
    "priority = -5",
    "max_attempts = 3",
    "backoff = \"list(1s, 10s), jitter 5%\"",
    "backoff = up::backoff",
    "lease = \"5m\"",
    "timeout = \"1h30m\"",
    "expires = \"2d\"",
    "unique(by = \"to\", per_queue, states = \"ready, running\", within = \"1h\")",
    "unique(by = \"kind, to\", on_conflict = \"replace\")",
    "concurrency(by = \"to\", max = 2)",
    "rate(max = 10, per = \"1m\")",
    "serial(by = \"kind\")",
    "version = 2, migrate = up",
    "crate = \"a::b\"",
    "schedule(cron = \"0 3 * * *\", zone = \"Europe/Berlin\", missed = \"run all(10)\", name = \"n\", payload = f)",
];

const SHAPES: &[&str] = &[
    "struct S;",
    "struct S {}",
    "struct S { to: String, r#type: u8, kind: u8 }",
    "struct S(u8, String);",
    "enum S {}",
    "enum S { A, B { to: u8 }, C(u8) }",
    "union S { to: u8, kind: u16 }",
    "struct S<T> { to: T }",
    "struct S<'a, const N: usize> where u8: Copy { to: &'a [u8; N] }",
    "pub(in crate::a) struct r#type { #[job(kind = \"x\")] to: u8 }",
    "struct S { #[job] to: u8, #[job(by)] kind: u8 }",
    "enum S { #[job(x)] A(#[job] u8) }",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        5 => prop::sample::select(TEXTS).prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| text.escape_default().to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
    ];
    prop_oneof![
        4 => prop::sample::select(TEXTS).prop_map(str::to_owned),
        1 => prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => text().prop_map(|text| format!("\"{text}\"")),
        3 => prop::sample::select(VALUES).prop_map(str::to_owned),
    ]
}

fn option() -> impl Strategy<Value = String> {
    let key = prop::sample::select(KEYS);
    let leaf = (key, value(), 0..12).prop_map(|(key, value, form)| match form {
        0 => key.to_owned(),
        1 => format!("{key} ="),
        2 => format!("{key} == {value}"),
        3 => format!("{key}({value})"),
        4 => format!("{key}[{value}]"),
        5 => value,
        _ => format!("{key} = {value}"),
    });
    let any = leaf.prop_recursive(3, 12, 4, |inner| {
        let list = prop::collection::vec(inner, 0..4).prop_map(|options| options.join(", "));
        (prop::sample::select(KEYS), list).prop_map(|(key, list)| format!("{key}({list})"))
    });
    prop_oneof![2 => prop::sample::select(RIGHT).prop_map(str::to_owned), 1 => any]
}

fn input() -> impl Strategy<Value = String> {
    let separator = prop_oneof![20 => Just(", "), 1 => Just(" "), 1 => Just(",, "), 1 => Just("; ")];
    let list = (
        prop::collection::vec(option(), 0..5),
        separator,
        prop::bool::weighted(0.8),
    )
        .prop_map(|(options, separator, has_kind)| {
            let kind = if has_kind { "kind = \"k\", " } else { "" };
            format!("{kind}{}", options.join(separator))
        });
    let attribute = (list, 0..20).prop_map(|(list, form)| match form {
        0 => "#[job]".to_owned(),
        1 => "#[job = \"x\"]".to_owned(),
        2 => format!("#[job {{{list}}}]"),
        3 => format!("#[job[{list}]]"),
        4 => format!("#[serde({list})]"),
        _ => format!("#[job({list})]"),
    });
    (prop::collection::vec(attribute, 1..3), prop::sample::select(SHAPES))
        .prop_map(|(attributes, shape)| format!("{} {shape}", attributes.join(" ")))
}

/// Runs `check` until the time is up.
fn fuzz<S: Strategy>(name: &str, strategy: &S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("LEASEHOLD_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(2, |seconds| {
        seconds.parse().expect("LEASEHOLD_FUZZ_SECONDS is a number")
    });
    let (start, mut cases) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let config = Config {
            cases: 100,
            failure_persistence: None,
            max_global_rejects: 1_000_000,
            ..Config::default()
        };
        cases += config.cases;
        match TestRunner::new(config).run(strategy, &check) {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => panic!("{name}: {why}: {value:?}"),
            Err(abort) => panic!("{name}: {abort}"),
        }
    }
    // Past the capture of the test runner.
    let _ = std::io::stderr().write_all(format!("fuzz of {name}: {cases} cases\n").as_bytes());
}

#[test]
fn option_lists() {
    fuzz("option lists", &input(), |text| {
        proc_macro2::extra::invalidate_current_thread_spans();
        // What does not get as far as a derive is no case.
        let parsed = text
            .parse::<TokenStream>()
            .ok()
            .and_then(|tokens| syn::parse2::<DeriveInput>(tokens).ok());
        let Some(input) = parsed else {
            return Err(TestCaseError::reject("no type"));
        };
        if let Err(refused) = JobModel::from_input(&input) {
            for error in refused.error {
                let at = error.span().byte_range();
                prop_assert!(!at.is_empty() && at.end <= text.len(), "{error} at {at:?}");
                prop_assert!(!error.to_string().is_empty());
            }
        }
        let output = derive(&input);
        prop_assert!(syn::parse2::<syn::File>(output.clone()).is_ok(), "{output}");
        Ok(())
    });
}

#[test]
fn durations() {
    let piece = prop_oneof![
        prop::sample::select(&["d", "h", "m", "s", "ms", " ", "-", ".", "µs", "1", "0"][..]).prop_map(str::to_owned),
        (0..100_u64).prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<String>(),
    ];
    let text = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    fuzz("durations", &text, |text| {
        if let Ok(millis) = duration::parse_millis(&text) {
            let longer = duration::parse_millis(&format!("{}ms", millis));
            prop_assert_eq!(longer, Ok(millis));
        }
        Ok(())
    });
}
