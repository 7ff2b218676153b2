//! What the macro reports.

use proc_macro2::TokenStream;
use syn::{DeriveInput, parse_quote};

use crate::model::JobModel;

fn messages(input: &DeriveInput) -> Vec<String> {
    match JobModel::from_input(input) {
        Ok(_) => Vec::new(),
        Err(refused) => refused.error.into_iter().map(|error| error.to_string()).collect(),
    }
}

#[track_caller]
fn assert_messages(input: DeriveInput, expected: &[&str]) {
    let found = messages(&input);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "expected {expected:?} in {found:?}");
    }
}

#[test]
fn what_follows_a_mistake_is_read() {
    assert_messages(
        parse_quote! {
            #[job(kind = 5, retries = 3, lease = 5 minutes, timeout = "0s", queue("mail"))]
            #[job(migrate = |from, old| Ok(old), priority = 40000)]
            struct A;
        },
        &[
            "expected text in quotes, as in `kind = \"send-email\"`",
            "unknown option `retries`; the options are `kind`, `queue`, `priority`, `max_attempts`, `backoff`, \
             `lease`, `timeout`, `unique`, `concurrency`, `rate`, `serial`, `version`, `migrate`, `crate`",
            "as in `lease = \"5m\"`",
            "as in `queue = \"mail\"`",
            "as in `migrate = upgrade`",
            "`priority` must be -32768 to 32767",
            "`timeout` must be longer than 0",
        ],
    );
}

#[test]
fn malformed_lists_are_reported_and_passed_over() {
    assert_messages(
        parse_quote! { #[job(kind = "a" queue = "b", "c", max_attempts: 5, lease, , version = )] struct A; },
        &[
            "expected `,` before the next option",
            "expected an option, as in `kind = \"send-email\"`",
            "expected an option, as in `kind = \"send-email\"`",
            "as in `max_attempts = 5`",
            "as in `lease = \"5m\"`",
            "as in `version = 2`",
        ],
    );
    assert_messages(parse_quote! { #[job] struct A; }, &["a job needs a kind"]);
    assert_messages(
        parse_quote! { #[job = "a"] struct A; },
        &["options go in parentheses", "a job needs a kind"],
    );
    assert_messages(parse_quote! { #[job()] struct A; }, &["a job needs a kind"]);
}

#[test]
fn an_option_that_is_there_but_wrong_causes_no_second_message() {
    assert_messages(
        parse_quote! { #[job(kind = "")] struct A; },
        &["`kind` must have 1 to 128 bytes; this has 0"],
    );
    assert_messages(
        parse_quote! { #[job(kind)] struct A; },
        &["as in `kind = \"send-email\"`"],
    );
    assert_messages(
        parse_quote! { #[job(kind: "a")] struct A; },
        &["as in `kind = \"send-email\"`"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", version = 0, migrate = up)] struct A; },
        &["`version` must be 1 to 1000"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", kind = 5)] struct A; },
        &["`kind` is given twice"],
    );
}

#[test]
fn numbers_have_the_range_of_their_option() {
    for right in [
        "priority = -32768",
        "priority = 32767",
        "priority = 0x10",
        "max_attempts = 1000000",
        "version = 1000",
    ] {
        let right: TokenStream = right.parse().expect("tokens");
        assert_messages(parse_quote! { #[job(kind = "a", #right)] struct A; }, &[]);
    }
    for (wrong, message) in [
        ("priority = -32769", "must be -32768 to 32767"),
        (
            "priority = 99999999999999999999999999999999999999999",
            "must be -32768 to 32767",
        ),
        (
            "priority = -99999999999999999999999999999999999999999",
            "must be -32768 to 32767",
        ),
        ("priority = \"5\"", "a whole number, as in `priority = 10`"),
        ("priority = --5", "a whole number"),
        ("priority = 1 + 1", "a whole number"),
        ("priority = 1.5", "a whole number"),
        ("priority = 5u8", "without a suffix"),
        ("max_attempts = 0", "must be 1 to 1000000"),
        ("max_attempts = -1", "must be 1 to 1000000"),
        ("max_attempts = 1000001", "must be 1 to 1000000"),
        ("version = 1001", "must be 1 to 1000"),
    ] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(parse_quote! { #[job(kind = "a", #wrong)] struct A; }, &[message]);
    }
}

#[test]
fn names_are_short_and_show_as_they_are() {
    let longest = "é".repeat(64);
    assert_messages(
        parse_quote! { #[job(kind = #longest, queue = "post/büro 1")] struct A; },
        &[],
    );
    for (wrong, message) in [
        ("é".repeat(64) + "x", "this has 129"),
        ("a\nb".to_owned(), "U+000A"),
        ("a\u{7f}".to_owned(), "U+007F"),
        ("a\u{85}".to_owned(), "U+0085"),
        ("a\u{202E}b".to_owned(), "U+202E"),
        ("a\u{2067}b".to_owned(), "U+2067"),
        ("\u{200F}b".to_owned(), "U+200F"),
        ("\u{61C}b".to_owned(), "U+061C"),
    ] {
        assert_messages(
            parse_quote! { #[job(kind = #wrong, queue = #wrong)] struct A; },
            &[message, message],
        );
    }
}

#[test]
fn a_lease_is_a_second_to_a_year() {
    for right in ["1s", "1000ms", "365d"] {
        assert_messages(parse_quote! { #[job(kind = "a", lease = #right)] struct A; }, &[]);
    }
    for wrong in ["999ms", "0s", "365d1ms", "18446744073709551615ms"] {
        assert_messages(
            parse_quote! { #[job(kind = "a", lease = #wrong)] struct A; },
            &["`lease` must be 1s to 365d"],
        );
    }
}

#[test]
fn a_backoff_has_three_shapes() {
    for right in [
        "fixed(0s)",
        "fixed(30s)",
        "linear(10s..5m)",
        "exponential(1s..1h)",
        "exponential(1s..1s)",
    ] {
        assert_messages(parse_quote! { #[job(kind = "a", backoff = #right)] struct A; }, &[]);
    }
    for (wrong, message) in [
        (
            "",
            "is not a backoff: write \"fixed(30s)\", \"linear(10s..5m)\" or \"exponential(1s..1h)\"",
        ),
        ("30s", "is not a backoff"),
        ("fixed(30s", "is not a backoff"),
        ("fixed(1s..2s)", "is not a backoff"),
        ("linear(10s)", "is not a backoff"),
        ("random(1s..2s)", "is not a backoff"),
        ("random(1..2)", "is not a backoff"),
        ("fixed(30)", "\"30\" is not a duration"),
        ("linear(10s..)", "\"\" is not a duration"),
        ("exponential(1s..=1h)", "\"=1h\" is not a duration"),
        (
            "exponential(1h..1s)",
            "the first wait must be longer than 0 and not longer than the last",
        ),
        ("linear(0s..1h)", "the first wait must be longer than 0"),
        ("exponential(1s..213503982335d)", "too long"),
    ] {
        assert_messages(
            parse_quote! { #[job(kind = "a", backoff = #wrong)] struct A; },
            &[message],
        );
    }
}

#[test]
fn unique_goes_by_fields_that_are_there() {
    assert_messages(
        parse_quote! { #[job(kind = "a", unique(by = "to, too, to, "))] struct A { to: u8, r#as: u8 } },
        &[
            "no field `too` in `A`; its fields: `to`, `as`",
            "field `to` is named twice",
            "no field ``",
        ],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", unique(by = "to"))] enum A { B } },
        &["the fields of a struct, and `A` is none"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", unique(by = "x"))] struct A; },
        &["no field `x` in `A`; its fields: none"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", unique(fields = "to"))] struct A { to: u8 } },
        &["unknown option `fields`; `unique` takes `by = \"account, month\"`"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", unique(by = "to", by = "to"))] struct A { to: u8 } },
        &["`by` is given twice"],
    );
    for wrong in ["unique", "unique()", "unique = \"to\"", "unique(by = to)", "unique(by)"] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        let input = parse_quote! { #[job(kind = "a", #wrong)] struct A { to: u8 } };
        assert_messages(input, &["as in `unique(by = \"account, month\")`"]);
    }
}

#[test]
fn limits_go_by_one_key_and_say_how_many() {
    for right in [
        "concurrency(max = 2)",
        "concurrency(by = \"to\", max = 2)",
        "rate(by = \"to, n\", max = 100, per = \"1m\"), concurrency(max = 1, by = \"n,to\")",
        "serial",
        "serial(by = \"to\"), rate(by = \"to\", max = 1, per = \"1ms\")",
    ] {
        let right: TokenStream = right.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", #right)] struct A { to: u8, n: u8 } },
            &[],
        );
    }
    let form = "as in `concurrency(by = \"tenant\", max = 2)`";
    for (wrong, messages) in [
        ("concurrency", &[form][..]),
        ("concurrency()", &[form]),
        ("concurrency = 2", &[form]),
        ("concurrency(by = \"to\")", &["`concurrency` needs `max`, as in"]),
        ("concurrency(max = 0)", &["`max` must be 1 to 1000000"]),
        ("concurrency(max = \"2\")", &[form]),
        ("concurrency(by = to, max = 2)", &[form]),
        ("concurrency(max = 2, max = 3)", &["`max` is given twice"]),
        (
            "concurrency(max = 2, per = \"1m\")",
            &["unknown option `per` of `concurrency`"],
        ),
        ("concurrency(by = \"too\", max = 2)", &["no field `too` in `A`"]),
        ("rate(max = 2)", &["`rate` needs `per`"]),
        ("rate(per = \"1m\", by = \"to\")", &["`rate` needs `max`"]),
        ("rate(max = 2, per = \"0s\")", &["`per` must be 1ms to 365d"]),
        ("rate(max = 2, per = \"1 minute\")", &["is not a duration"]),
        ("serial()", &["as in `serial(by = \"tenant\")`"]),
        ("serial(max = 1)", &["unknown option `max` of `serial`"]),
        ("serial, concurrency(max = 2)", &["leave out `concurrency`"]),
        (
            "concurrency(by = \"to\", max = 2), rate(max = 1, per = \"1s\")",
            &["`concurrency` and `rate` must go by the same fields"],
        ),
        (
            "rate(by = \"to\", max = 1, per = \"1s\"), serial(by = \"n\")",
            &["`rate` and `serial` must go by the same fields"],
        ),
    ] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", #wrong)] struct A { to: u8, n: u8 } },
            messages,
        );
    }
    assert_messages(
        parse_quote! { #[job(kind = "a", serial(by = "to"))] enum A { B } },
        &["`serial` goes by the fields of a struct, and `A` is none"],
    );
}

#[test]
fn a_type_that_cannot_be_a_job_is_refused_with_the_reason() {
    assert_messages(
        parse_quote! { #[job(kind = "a")] struct A<'a, T, const N: usize> { t: &'a [T; N] } },
        &["cannot borrow", "cannot be generic", "cannot be generic"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a")] union A { a: u8 } },
        &["a union cannot be a job"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a")] enum A { #[job(unique)] B { #[job(unique)] to: u8 } } },
        &["not to a variant", "not to a field"],
    );
}
