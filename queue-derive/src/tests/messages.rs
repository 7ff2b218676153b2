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
             `lease`, `timeout`, `expires`, `unique`, `idempotency_key`, `concurrency`, `rate`, `serial`, `schedule`, `version`, `migrate`, `crate`",
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
fn a_backoff_has_a_shape_of_the_five() {
    for right in [
        "fixed(0s)",
        "fixed(30s)",
        "linear(10s..5m)",
        "exponential(1s..1h)",
        "exponential(1s..1s)",
        "exponential(1s..1h, jitter 20%)",
        "fixed(30s,jitter 1%)",
        "list(1s)",
        "list(1s, 10s, 1m)",
        "list(0s,1s,jitter 100%)",
    ] {
        assert_messages(parse_quote! { #[job(kind = "a", backoff = #right)] struct A; }, &[]);
    }
    for (wrong, message) in [
        (
            "",
            "is not a backoff: write \"fixed(30s)\", \"linear(10s..5m)\", \"exponential(1s..1h)\" or \"list(1s, 10s, 1m)\", \
             with \", jitter 20%\" at the end or without, or the path of a function",
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
        ("fixed(1s, 2s)", "is not a backoff"),
        ("linear(1s..2s, 3s)", "is not a backoff"),
        ("list()", "\"\" is not a duration"),
        ("list(1s,)", "\"\" is not a duration"),
        ("list(1s..2s)", "is not a backoff"),
        ("list(1s 2s)", "\"1s 2s\" is not a duration"),
        ("list(jitter 20%)", "is not a backoff"),
        ("fixed(jitter 20%)", "is not a backoff"),
        ("list(jitter 20%, 1s)", "\"jitter 20%\" is not a duration"),
        ("fixed(1s, jitter 0%)", "the jitter must be 1% to 100%"),
        ("fixed(1s, jitter 101%)", "the jitter must be 1% to 100%"),
        ("fixed(1s, jitter 20)", "the jitter must be 1% to 100%"),
        ("fixed(1s, jitter)", "the jitter must be 1% to 100%"),
        ("fixed(1s, jitter20%)", "the jitter must be 1% to 100%"),
    ] {
        assert_messages(
            parse_quote! { #[job(kind = "a", backoff = #wrong)] struct A; },
            &[message],
        );
    }
    assert_messages(
        parse_quote! { #[job(kind = "a", backoff = my::backoff)] struct A; },
        &[],
    );
    for wrong in [
        "backoff = 30",
        "backoff",
        "backoff = |n| n",
        "backoff(fixed = 1)",
        "backoff = f(1)",
    ] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", #wrong)] struct A; },
            &["expected text in quotes or the path of a function, as in `backoff = \"exponential(1s..1h)\"`"],
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
        &["unknown option `fields`; `unique` takes `by`, `per_queue`, `states`, `within`, `on_conflict`"],
    );
    assert_messages(
        parse_quote! { #[job(kind = "a", unique(by = "to", by = "to"))] struct A { to: u8 } },
        &["`by` is given twice"],
    );
    for wrong in ["unique = \"to\"", "unique: by", "unique = by(\"to\")"] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        let input = parse_quote! { #[job(kind = "a", #wrong)] struct A { to: u8 } };
        assert_messages(input, &["as in `unique(by = \"account, month\")`"]);
    }
    for wrong in ["by = to", "by", "by(\"to\")", "by = 5"] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        let input = parse_quote! { #[job(kind = "a", unique(#wrong))] struct A { to: u8 } };
        assert_messages(input, &["expected text in quotes, as in `by = \"account, month\"`"]);
    }
}

#[test]
fn unique_takes_what_it_needs_and_no_more() {
    for right in [
        "unique",
        "unique()",
        "unique(per_queue)",
        "unique(by = \"to\", per_queue, states = \"ready,running , completed\", within = \"1d\", on_conflict = \"keep\")",
        "unique(states = \"ready, discarded, cancelled\", on_conflict = \"replace, reschedule\")",
    ] {
        let right: TokenStream = right.parse().expect("tokens");
        assert_messages(parse_quote! { #[job(kind = "a", #right)] struct A { to: u8 } }, &[]);
    }
    assert_messages(parse_quote! { #[job(kind = "a", unique(per_queue))] enum A { B } }, &[]);
    for (wrong, messages) in [
        ("per_queue = true", &["expected no value, as in `per_queue`"][..]),
        ("per_queue: yes", &["expected no value, as in `per_queue`"]),
        (
            "states = \"\"",
            &[
                "no state ``; the states are `ready`, `running`",
                "`states` must have `ready`",
            ],
        ),
        ("states = \"running\"", &["`states` must have `ready`"]),
        (
            "states = \"ready, ready, done\"",
            &["state `ready` is named twice", "no state `done`"],
        ),
        (
            "states = [ready]",
            &["expected text in quotes, as in `states = \"ready, running\"`"],
        ),
        ("within = \"0s\"", &["`within` must be longer than 0"]),
        ("within = \"an hour\"", &["\"an hour\" is not a duration"]),
        ("within = 1", &["expected text in quotes, as in `within = \"1h\"`"]),
        (
            "on_conflict = \"Replace\"",
            &["`on_conflict` must be \"keep\", \"replace\", \"reschedule\""],
        ),
        ("on_conflict = \"keep, reject\"", &["`on_conflict` must be"]),
        (
            "on_conflict = replace",
            &["expected text in quotes, as in `on_conflict = \"replace\"`"],
        ),
        (
            "within = \"1\", states = \"x, ready\", on_conflict = \"\", by = \"x\", within = \"1h\"",
            &[
                "`within` is given twice",
                "no field `x`",
                "no state `x`",
                "\"1\" is not",
                "`on_conflict` must be",
            ],
        ),
    ] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", unique(#wrong))] struct A { to: u8 } },
            messages,
        );
    }
}

#[cfg(feature = "schedules")]
#[test]
fn a_schedule_has_a_cron_text_that_means_something() {
    for right in [
        r#"cron = "0 3 * * *""#,
        r#"cron = "@daily", zone = "Europe/Berlin", missed = "skip""#,
        r#"cron = "*/10 * * * * MON-FRI", missed = "run all(1000)", name = "often", payload = Self::often"#,
    ] {
        let right: TokenStream = right.parse().expect("tokens");
        assert_messages(parse_quote! { #[job(kind = "a", schedule(#right))] struct A; }, &[]);
    }
    for (wrong, message) in [
        (r#"cron = "0 0 30 2 *""#, "there is no such day in any year"),
        (r#"cron = "0 3 * *""#, "is not a cron text: it has 4 fields"),
        (r#"cron = "0 25 * * *""#, "out of bounds"),
        (r#"cron = "x 3 * * *""#, "\"X\" is no minute"),
        ("cron = 3", "text in quotes, as in `cron = \"0 3 * * *\"`"),
        (r#"zone = "UTC""#, "a schedule needs a cron text, as in"),
        (r#"cron = "@daily", zone = UTC"#, "as in `zone = \"Europe/Berlin\"`"),
        (r#"cron = "@daily", missed = "run all(0)""#, "is none of \"skip\""),
        (r#"cron = "@daily", missed = "run all(1001)""#, "is none of \"skip\""),
        (r#"cron = "@daily", missed = "sometimes""#, "is none of \"skip\""),
        (r#"cron = "@daily", name = """#, "`name` must have 1 to 128 bytes"),
        (
            r#"cron = "@daily", payload = "x""#,
            "the path of a function, as in `payload = tonight`",
        ),
        (r#"cron = "@daily", cron = "@hourly""#, "`cron` is given twice"),
        (
            r#"cron = "@daily", every = "1h""#,
            "those of `schedule` are `cron`, `zone`, `missed`, `name`, `payload`",
        ),
    ] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", schedule(#wrong))] struct A; },
            &[message],
        );
    }
    for wrong in ["schedule", "schedule()", r#"schedule = "0 3 * * *""#] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", #wrong)] struct A; },
            &["as in `schedule(cron = \"0 3 * * *\")`"],
        );
    }
    assert_messages(
        parse_quote! { #[job(kind = "a", schedule(cron = "@daily"), schedule(cron = "@hourly"))] struct A; },
        &["`schedule` is given twice"],
    );
}

#[cfg(not(feature = "schedules"))]
#[test]
fn a_schedule_needs_its_feature() {
    assert_messages(
        parse_quote! { #[job(kind = "a", schedule(cron = "@daily"))] struct A; },
        &["`schedule` needs the feature `schedules` of leasehold"],
    );
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

#[test]
fn an_idempotency_key_takes_fields_and_a_time() {
    for (wrong, message) in [
        (
            "idempotency_key",
            "options in parentheses, as in `idempotency_key(by = \"order\")`",
        ),
        (
            "idempotency_key()",
            "options in parentheses, as in `idempotency_key(by = \"order\")`",
        ),
        (
            "idempotency_key = \"order\"",
            "options in parentheses, as in `idempotency_key(by = \"order\")`",
        ),
        (
            "idempotency_key(by = 5)",
            "text in quotes, as in `idempotency_key(by = \"order\")`",
        ),
        (
            "idempotency_key(by = \"other\")",
            "no field `other` in `A`; its fields: `order`",
        ),
        (
            "idempotency_key(within = \"1h\")",
            "unknown option `within`; `idempotency_key` takes `by`, `remember`",
        ),
        ("idempotency_key(remember = \"0s\")", "`remember` must be longer than 0"),
        ("idempotency_key(by = \"order\", by = \"order\")", "`by` is given twice"),
    ] {
        let wrong: TokenStream = wrong.parse().expect("tokens");
        assert_messages(
            parse_quote! { #[job(kind = "a", #wrong)] struct A { order: u64 } },
            &[message],
        );
    }
}
