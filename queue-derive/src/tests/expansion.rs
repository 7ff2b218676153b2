//! What the macro generates.

use quote::quote;
use syn::parse_quote;

use crate::derive;

#[test]
fn a_kind_alone_leaves_the_rest_to_the_trait() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "tick")]
        struct Tick;
    });
    let expected = quote! {
        const _: () = {
            #[automatically_derived]
            #[allow(deprecated)]
            impl ::leasehold::Job for Tick {
                const KIND: &'static ::core::primitive::str = "tick";
            }
        };
    };
    assert_eq!(tokens.to_string(), expected.to_string());
}

#[test]
fn every_option_has_its_place() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "send", queue = "mail", version = 2, priority = -5, max_attempts = 1_000)]
        #[job(lease = "5m", timeout = "1h30m", expires = "2d", backoff = "linear(10s..5m)")]
        #[job(unique(by = "to, type"), migrate = up::grade)]
        struct Send {
            to: String,
            r#type: u8,
        }
    });
    let expected = quote! {
        const _: () = {
            #[automatically_derived]
            #[allow(deprecated)]
            impl ::leasehold::Job for Send {
                const KIND: &'static ::core::primitive::str = "send";
                const QUEUE: &'static ::core::primitive::str = "mail";
                const VERSION: ::core::primitive::u32 = 2u32;
                const PRIORITY: ::core::primitive::i16 = -5i16;
                const MAX_ATTEMPTS: ::core::primitive::u32 = 1000u32;
                const LEASE: ::core::time::Duration = ::core::time::Duration::from_millis(300000u64);
                const TIMEOUT: ::core::option::Option<::core::time::Duration> =
                    ::core::option::Option::Some(::core::time::Duration::from_millis(5400000u64));
                const EXPIRES: ::core::option::Option<::core::time::Duration> =
                    ::core::option::Option::Some(::core::time::Duration::from_millis(172800000u64));
                const BACKOFF: ::leasehold::Backoff = ::leasehold::Backoff::linear(
                    ::core::time::Duration::from_millis(10000u64),
                    ::core::time::Duration::from_millis(300000u64)
                );
                fn unique_key(&self) -> ::core::option::Option<::leasehold::__private::String> {
                    ::core::option::Option::Some(::leasehold::__private::unique_key(&[
                        ("to", ::leasehold::__private::to_value(&self.to)),
                        ("type", ::leasehold::__private::to_value(&self.r#type))
                    ]))
                }
                fn migrate(
                    __from: ::core::primitive::u32,
                    __payload: ::leasehold::__private::Value,
                ) -> ::core::result::Result<::leasehold::__private::Value, ::leasehold::__private::String> {
                    let __upgrade: fn(
                        ::core::primitive::u32,
                        ::leasehold::__private::Value,
                    ) -> ::core::result::Result<::leasehold::__private::Value, _> = up::grade;
                    ::core::result::Result::map_err(
                        __upgrade(__from, __payload),
                        |__error| ::leasehold::__private::ToString::to_string(&__error)
                    )
                }
            }
        };
    };
    assert_eq!(tokens.to_string(), expected.to_string());
}

#[test]
fn limits_become_a_constant_and_a_key() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "send", concurrency(by = "to", max = 2), rate(by = "to", max = 100, per = "1m"))]
        struct Send {
            to: String,
        }
    });
    let expected = quote! {
        const LIMIT: ::leasehold::Limit = ::leasehold::Limit::none()
            .concurrency(2u32)
            .rate(100u32, ::core::time::Duration::from_millis(60000u64));
        fn limit_key(&self) -> ::core::option::Option<::leasehold::__private::String> {
            ::core::option::Option::Some(::leasehold::__private::unique_key(&[
                ("to", ::leasehold::__private::to_value(&self.to))
            ]))
        }
    };
    assert!(tokens.to_string().contains(&expected.to_string()), "{tokens}");
    let whole = derive(&parse_quote! { #[job(kind = "send", serial)] struct Send; });
    let expected = quote! { const LIMIT: ::leasehold::Limit = ::leasehold::Limit::none().serial(); };
    assert!(whole.to_string().contains(&expected.to_string()), "{whole}");
    assert!(!whole.to_string().contains("limit_key"), "{whole}");
}

#[test]
fn every_backoff_is_a_constant_expression() {
    for (given, expected) in [
        (
            quote!("fixed(1s)"),
            quote!(fixed(::core::time::Duration::from_millis(1000u64))),
        ),
        (
            quote!("exponential(1ms..2ms, jitter 20%)"),
            quote!(
                exponential(
                    ::core::time::Duration::from_millis(1u64),
                    ::core::time::Duration::from_millis(2u64)
                )
                .jitter(20u8)
            ),
        ),
        (
            quote!("list(0s, 1ms, jitter 100%)"),
            quote!(
                list(&[
                    ::core::time::Duration::from_millis(0u64),
                    ::core::time::Duration::from_millis(1u64)
                ])
                .jitter(100u8)
            ),
        ),
        (quote!(later::and_later), quote!(function(later::and_later))),
    ] {
        let tokens = derive(&parse_quote! { #[job(kind = "a", backoff = #given)] struct A; });
        let expected = quote!(const BACKOFF: ::leasehold::Backoff = ::leasehold::Backoff::#expected;);
        assert!(tokens.to_string().contains(&expected.to_string()), "{tokens}");
    }
}

#[test]
fn the_crate_is_found_by_a_path_in_quotes_or_without() {
    for input in [
        parse_quote! { #[job(kind = "a", crate = "my::queue")] struct A; },
        parse_quote! { #[job(kind = "a", crate = my::queue)] struct A; },
    ] {
        assert!(derive(&input).to_string().contains("impl my :: queue :: Job for A"));
    }
    let own = derive(&parse_quote! { #[job(kind = "a", crate = crate)] enum A { B } });
    assert!(own.to_string().contains("impl crate :: Job for A"));
}

#[test]
fn a_tuple_struct_is_unique_by_its_indexes() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "a", unique(by = "1"))]
        struct A(u8, u16);
    });
    assert!(tokens.to_string().contains("(& self . 1)"), "{tokens}");
}

#[cfg(feature = "schedules")]
#[test]
fn a_schedule_has_the_kind_as_its_name_and_the_default_as_its_payload() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "a", schedule(cron = "@daily"))]
        struct A;
    });
    let expected = quote! {
        let __payload: Self = ::core::default::Default::default();
        ::core::option::Option::Some(::leasehold::schedule::Schedule::new(<Self as ::leasehold::Job>::KIND, "@daily").job(&__payload))
    };
    assert!(tokens.to_string().contains(&expected.to_string()), "{tokens}");
    let tokens = derive(&parse_quote! {
        #[job(kind = "a", crate = "mine", schedule(cron = "@daily", name = "b", zone = "UTC", missed = "run all(3)", payload = c::d))]
        struct A;
    });
    let expected = quote! {
        let __payload: Self = c::d();
        ::core::option::Option::Some(mine::schedule::Schedule::new("b", "@daily")
            .zone("UTC")
            .missed(mine::schedule::Missed::RunAll { at_most: 3u32 })
            .job(&__payload))
    };
    assert!(tokens.to_string().contains(&expected.to_string()), "{tokens}");
}

#[test]
fn a_unique_key_is_kept_as_the_option_says() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "a", unique(per_queue, states = "ready, completed", within = "1s", on_conflict = "reschedule, replace"))]
        struct A;
    });
    let expected = quote! {
        const UNIQUE: ::leasehold::Unique = ::leasehold::Unique::new()
            .per_queue()
            .states(&[::leasehold::inspect::State::Ready, ::leasehold::inspect::State::Completed])
            .within(::core::time::Duration::from_millis(1000u64))
            .on_conflict(::leasehold::OnConflict::ReplaceAndReschedule);
        fn unique_key(&self) -> ::core::option::Option<::leasehold::__private::String> {
            ::core::option::Option::Some(::leasehold::__private::unique_key(&[]))
        }
    };
    assert!(tokens.to_string().contains(&expected.to_string()), "{tokens}");
    let plain = derive(&parse_quote! { #[job(kind = "a", unique)] struct A; });
    assert!(
        plain.to_string().contains("fn unique_key") && !plain.to_string().contains("UNIQUE"),
        "{plain}"
    );
}

#[test]
fn a_refused_type_is_implemented_with_what_is_known() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "a", crate = "mine", retries = 3)]
        struct A;
    });
    let expected = quote! {
        const _: () = {
            #[automatically_derived]
            #[allow(deprecated)]
            impl mine::Job for A {
                const KIND: &'static ::core::primitive::str = "a";
            }
        };
    };
    assert!(tokens.to_string().ends_with(&expected.to_string()), "{tokens}");

    let generic = derive(&parse_quote! { struct A<T> where T: Copy { t: T } });
    let header = quote! {
        impl<T> ::leasehold::Job for A<T>
        where
            T: Copy,
            Self: ::leasehold::__private::Serialize + ::leasehold::__private::DeserializeOwned,
            Self: ::core::marker::Send + 'static
    };
    assert!(generic.to_string().contains(&header.to_string()), "{generic}");
    assert!(
        generic
            .to_string()
            .contains("const KIND : & 'static :: core :: primitive :: str = \"\""),
        "{generic}"
    );
}

#[test]
fn an_idempotency_key_goes_by_fields_under_the_kind() {
    let tokens = derive(&parse_quote! {
        #[job(kind = "charge", idempotency_key(by = "order", remember = "30d"))]
        struct Charge { order: u64 }
    });
    let expected = quote! {
        const REMEMBER_KEY: ::core::time::Duration = ::core::time::Duration::from_millis(2592000000u64);
        fn idempotency_key(&self) -> ::core::option::Option<::leasehold::__private::String> {
            ::core::option::Option::Some(::leasehold::__private::idempotency_key(
                <Self as ::leasehold::Job>::KIND,
                &[("order", ::leasehold::__private::to_value(&self.order))]
            ))
        }
    };
    assert!(tokens.to_string().contains(&expected.to_string()), "{tokens}");
    // Without fields only the time is said.
    let tokens = derive(&parse_quote! {
        #[job(kind = "charge", idempotency_key(remember = "1h"))]
        struct Charge { order: u64 }
    });
    assert!(tokens.to_string().contains("REMEMBER_KEY") && !tokens.to_string().contains("idempotency_key"));
}
