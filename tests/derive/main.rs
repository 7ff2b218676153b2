//! The derive macro where its surroundings would trip it: whatever names the caller has, the generated code means the
//! same.

#![deny(warnings)]

use std::time::Duration;

/// Everything that the generated code could lean on has another meaning here.
mod shadowed {
    #![allow(dead_code, non_camel_case_types)]

    use ::leasehold::Job;
    use serde::{Deserialize, Serialize};

    use self::upgrades::upgrade;

    pub(crate) enum Option<T> {
        Some(T),
        None,
    }
    pub(crate) enum Result {
        Ok,
        Err,
    }
    pub(crate) struct Some;
    pub(crate) struct None;
    pub(crate) struct Ok;
    pub(crate) struct Err;
    pub(crate) struct String;
    pub(crate) struct Box;
    pub(crate) struct Vec;
    pub(crate) struct Duration;
    pub(crate) struct Value;
    pub(crate) struct Backoff;
    pub(crate) struct str;
    pub(crate) struct u32;
    pub(crate) struct i16;
    pub(crate) struct from;
    pub(crate) struct payload;
    pub(crate) struct error;
    pub(crate) trait ToString {}
    pub(crate) trait Send {}
    pub(crate) mod core {}
    pub(crate) mod leasehold {}
    pub(crate) mod serde_json {}
    pub(crate) mod std {}

    mod upgrades {
        pub(crate) fn upgrade(
            from: ::core::primitive::u32,
            payload: ::serde_json::Value,
        ) -> ::core::result::Result<::serde_json::Value, ::std::num::ParseIntError> {
            match from {
                1 => ::core::result::Result::Ok(::serde_json::json!([payload, 0])),
                _ => "none".parse::<::core::primitive::u8>().map(::serde_json::Value::from),
            }
        }
    }

    fn made() -> Shadowed {
        Shadowed(1, 2)
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "defaulted", schedule(cron = "@daily"))]
    pub(crate) struct Defaulted;

    impl ::core::default::Default for Defaulted {
        fn default() -> Self {
            Self
        }
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(
        kind = "shadowed",
        queue = "q",
        priority = -3,
        max_attempts = 4,
        backoff = "linear(1s..5s, jitter 10%)",
        lease = "90s",
        timeout = "1h30m",
        unique(by = "0, 1"),
        schedule(cron = "0 3 * * *", zone = "Europe/Berlin", missed = "run all(2)", payload = made),
        version = 2,
        migrate = upgrade
    )]
    pub(crate) struct Shadowed(pub(crate) ::core::primitive::u8, pub(crate) ::core::primitive::u16);
}

#[test]
fn a_shadowed_prelude_changes_nothing() {
    use leasehold::{Backoff, Job};
    use shadowed::{Defaulted, Shadowed};

    assert_eq!(
        (Shadowed::KIND, Shadowed::QUEUE, Shadowed::VERSION),
        ("shadowed", "q", 2)
    );
    assert_eq!((Shadowed::PRIORITY, Shadowed::MAX_ATTEMPTS), (-3, 4));
    assert_eq!(Shadowed::LEASE, Duration::from_secs(90));
    assert_eq!(Shadowed::TIMEOUT, Some(Duration::from_secs(5400)));
    let linear = Backoff::linear(Duration::from_secs(1), Duration::from_secs(5)).jitter(10);
    assert_eq!(format!("{:?}", Shadowed::BACKOFF), format!("{linear:?}"));
    assert_eq!(Shadowed(1, 2).unique_key(), Shadowed(1, 2).unique_key());
    assert_ne!(Shadowed(1, 2).unique_key(), Shadowed(2, 1).unique_key());
    assert_ne!(Shadowed(1, 2).unique_key(), None);
    let schedule = format!("{:?}", Shadowed::schedule());
    for part in ["\"shadowed\"", "0 3 * * *", "Europe/Berlin", "at_most: 2", "[1,2]"] {
        assert!(schedule.contains(part), "{schedule}");
    }
    assert!(Defaulted::schedule().is_some());
    assert_eq!(Shadowed::migrate(1, 7.into()), Ok(serde_json::json!([7, 0])));
    assert_eq!(
        Shadowed::migrate(9, 7.into()),
        Err("invalid digit found in string".to_owned())
    );
}

/// A library that has the queue under a name of its own, with a trait that the derive of the queue does not know.
mod facade {
    pub(crate) use leasehold::{__private, Backoff, Job as Derive};

    pub(crate) trait Job {
        const KIND: &'static str;
        const BACKOFF: Backoff = Backoff::fixed(std::time::Duration::ZERO);

        fn unique_key(&self) -> Option<String> {
            None
        }
    }
}

#[test]
fn the_crate_option_says_where_everything_is() {
    #[derive(facade::Derive)]
    #[job(kind = "quoted", crate = "facade", backoff = "fixed(2s)", unique(by = "to"))]
    struct Quoted {
        to: u8,
    }

    #[derive(facade::Derive)]
    #[job(kind = "path", crate = crate::facade)]
    struct Path;

    assert_eq!(<Quoted as facade::Job>::KIND, "quoted");
    assert_eq!(<Quoted as facade::Job>::BACKOFF.after(9), Duration::from_secs(2));
    assert!(facade::Job::unique_key(&Quoted { to: 1 }).is_some());
    assert_eq!(<Path as facade::Job>::KIND, "path");
}

/// What other macros make of a job: their variables are in invisible groups, and their names are not the caller's.
macro_rules! jobs {
    ($($name:ident { $field:ident: $type:ty } $kind:literal $priority:expr, $up:path;)*) => {$(
        #[derive(serde::Serialize, serde::Deserialize, leasehold::Job)]
        #[job(kind = $kind, priority = $priority, unique(by = "id, own"))]
        #[job(version = 2, migrate = $up, crate = $crate::facade_of_all)]
        struct $name {
            $field: $type,
            own: u8,
        }
    )*};
}

mod facade_of_all {
    pub(crate) use leasehold::*;
}

#[test]
fn a_job_can_come_out_of_another_macro() {
    use leasehold::Job;

    fn same(_: u32, payload: serde_json::Value) -> Result<serde_json::Value, String> {
        Ok(payload)
    }

    jobs! {
        First { id: u64 } "first" 1, same;
        Second { id: String } "second" -1, Second::refuse;
    }

    impl Second {
        fn refuse(from: u32, _: serde_json::Value) -> Result<serde_json::Value, String> {
            Err(format!("not from {from}"))
        }
    }

    assert_eq!((First::KIND, First::PRIORITY), ("first", 1));
    assert_eq!((Second::KIND, Second::PRIORITY), ("second", -1));
    assert_ne!(
        First { id: 1, own: 0 }.unique_key(),
        First { id: 2, own: 0 }.unique_key()
    );
    assert_ne!(
        Second { id: "a".into(), own: 0 }.unique_key(),
        Second { id: "a".into(), own: 1 }.unique_key()
    );
    assert_eq!(First::migrate(1, 5.into()), Ok(5.into()));
    assert_eq!(Second::migrate(1, 5.into()), Err("not from 1".to_owned()));
}

/// A migration may be a method of the type itself; field names may be keywords; a type may be on its way out.
#[test]
fn unusual_types_are_jobs_too() {
    use leasehold::Job;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "keyword", unique(by = "type"), version = 3, migrate = Self::lift)]
    struct Keyword {
        r#type: String,
    }

    impl Keyword {
        fn lift(from: u32, _: serde_json::Value) -> Result<serde_json::Value, std::convert::Infallible> {
            Ok(from.into())
        }
    }

    #[deprecated]
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "choice")]
    enum Choice {
        _One,
        _Two { _three: u8 },
    }

    assert!(Keyword { r#type: "a".into() }.unique_key().is_some());
    assert_eq!(Keyword::migrate(2, 0.into()), Ok(2.into()));
    #[expect(deprecated, reason = "the use warns, the derive does not")]
    let kind = Choice::KIND;
    assert_eq!(kind, "choice");
}
