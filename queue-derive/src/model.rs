//! What is to be generated: the options after every check.

use std::fmt::Display;
use std::ops::RangeInclusive;

use proc_macro2::Ident;
use syn::{Attribute, Data, DeriveInput, ExprPath, GenericParam, LitStr, Path, parse_quote};

use crate::attr::{Attributes, is_job};
use crate::backoff::{self, Backoff};
use crate::duration::{self, DAY};
use crate::errors::Errors;
use crate::given::Number;
use crate::key::IdempotencyKey;
use crate::limit::Limit;
use crate::schedule::Schedule;
use crate::unique::Unique;

/// A job type without a mistake. What is `None` or empty stays as the trait has it.
pub(crate) struct JobModel {
    pub(crate) krate: Path,
    pub(crate) ident: Ident,
    pub(crate) kind: LitStr,
    pub(crate) queue: Option<LitStr>,
    pub(crate) version: Option<u32>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u32>,
    /// In milliseconds, as all durations here.
    pub(crate) lease: Option<u64>,
    pub(crate) timeout: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) unique: Option<Unique>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    pub(crate) limit: Option<Limit>,
    pub(crate) migrate: Option<ExprPath>,
}

/// The mistakes of a job type, and what is known of it all the same.
pub(crate) struct Refused {
    pub(crate) error: syn::Error,
    pub(crate) krate: Path,
    pub(crate) kind: Option<LitStr>,
}

impl JobModel {
    pub(crate) fn from_input(input: &DeriveInput) -> Result<Self, Refused> {
        let errors = &mut Errors::default();
        let given = Attributes::parse(&input.attrs, errors);
        check_shape(input, errors);
        if !given.has("kind") {
            errors.push(
                &input.ident,
                "a job needs a kind, as in `#[job(kind = \"send-email\")]`: it is stored with every job, \
                 so it never comes from the type's name",
            );
        }
        check_migrate(&given, errors);
        let krate = given.krate.clone().unwrap_or_else(|| parse_quote!(::leasehold));
        let kind = name("kind", given.kind, errors);
        let queue = name("queue", given.queue, errors);
        let version = number("version", given.version, 1..=1000, errors);
        let priority = number("priority", given.priority, i16::MIN.into()..=i16::MAX.into(), errors);
        let max_attempts = number("max_attempts", given.max_attempts, 1..=1_000_000, errors);
        let lease = lease(given.lease, errors);
        let timeout = longer_than_0("timeout", given.timeout, errors);
        let expires = longer_than_0("expires", given.expires, errors);
        let backoff = given.backoff.and_then(|given| backoff::backoff(given, errors));
        let unique = given.unique.map(|unique| unique.check(input, errors));
        let idempotency_key = given.idempotency_key.map(|key| key.check(input, errors));
        let limit = Limit::of([given.concurrency, given.rate, given.serial], input, errors);

        match (kind, errors.take()) {
            (Some(kind), None) => Ok(Self {
                krate,
                ident: input.ident.clone(),
                kind,
                queue,
                version,
                priority,
                max_attempts,
                lease,
                timeout,
                expires,
                backoff,
                unique,
                idempotency_key,
                limit,
                schedule: given.schedule,
                migrate: given.migrate,
            }),
            (kind, error) => Err(Refused {
                error: error.unwrap_or_else(|| syn::Error::new_spanned(&input.ident, "a job needs a kind")),
                krate,
                kind,
            }),
        }
    }
}

/// A kind names one type of owned values; the options are the type's.
fn check_shape(input: &DeriveInput, errors: &mut Errors) {
    for parameter in &input.generics.params {
        let why = match parameter {
            GenericParam::Lifetime(_) => "a job cannot borrow: its payload is stored, and read back in another process",
            _ => "a job cannot be generic: its kind is the name of one payload type",
        };
        errors.push(parameter, why);
    }
    let misplaced = |attributes: &[Attribute], place: &str, errors: &mut Errors| {
        for attribute in attributes.iter().filter(|attribute| is_job(attribute)) {
            errors.push(
                attribute,
                format_args!("options of a job belong to its type, not to a {place}"),
            );
        }
    };
    match &input.data {
        Data::Struct(data) => data
            .fields
            .iter()
            .for_each(|field| misplaced(&field.attrs, "field", errors)),
        Data::Enum(data) => {
            for variant in &data.variants {
                misplaced(&variant.attrs, "variant", errors);
                variant
                    .fields
                    .iter()
                    .for_each(|field| misplaced(&field.attrs, "field", errors));
            }
        }
        Data::Union(data) => errors.push(
            data.union_token,
            "a union cannot be a job: which of its fields is to be stored is not known; use an enum",
        ),
    }
}

/// Payloads older than version 1 do not exist, so a migration would never be called.
fn check_migrate(given: &Attributes, errors: &mut Errors) {
    let first_version = match &given.version {
        Some(version) => version.value == 1,
        None => !given.has("version"),
    };
    if let (Some(migrate), true) = (&given.migrate, first_version) {
        errors.push(
            migrate,
            "`migrate` needs `version = 2` or more: version 1 has no older payloads",
        );
    }
}

/// Kinds and queues show up in logs, reports and terminals, where such characters could make one look like another.
pub(crate) fn name(key: &str, given: Option<LitStr>, errors: &mut Errors) -> Option<LitStr> {
    let given = given?;
    let text = given.value();
    // The same set as in the library's `name.rs`.
    let unseen = |c: &char| {
        c.is_control()
            || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
    };
    if !(1..=128).contains(&text.len()) {
        errors.push(
            &given,
            format_args!("`{key}` must have 1 to 128 bytes; this has {}", text.len()),
        );
    } else if let Some(found) = text.chars().find(unseen) {
        let found = u32::from(found);
        errors.push(
            &given,
            format_args!("`{key}` must not have control or bidirectional characters; this has U+{found:04X}"),
        );
    } else {
        return Some(given);
    }
    None
}

pub(crate) fn number<T: TryFrom<i64>>(
    key: &str,
    given: Option<Number>,
    range: RangeInclusive<i64>,
    errors: &mut Errors,
) -> Option<T> {
    let given = given?;
    let within = Some(given.value)
        .filter(|value| range.contains(value))
        .and_then(|value| T::try_from(value).ok());
    if within.is_none() {
        errors.push(
            &given.at,
            format_args!("`{key}` must be {} to {}", range.start(), range.end()),
        );
    }
    within
}

fn lease(given: Option<LitStr>, errors: &mut Errors) -> Option<u64> {
    checked(given?, errors, |text| match duration::parse_millis(text)? {
        millis if (1_000..=365 * DAY).contains(&millis) => Ok(millis),
        _ => Err("`lease` must be 1s to 365d: a worker renews it several times within its length".to_owned()),
    })
}

pub(crate) fn longer_than_0(key: &str, given: Option<LitStr>, errors: &mut Errors) -> Option<u64> {
    checked(given?, errors, |text| match duration::parse_millis(text)? {
        0 => Err(format!("`{key}` must be longer than 0; leave it out for none")),
        millis => Ok(millis),
    })
}

pub(crate) fn checked<T, E: Display>(
    given: LitStr,
    errors: &mut Errors,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Option<T> {
    parse(&given.value())
        .map_err(|message| errors.push(&given, message))
        .ok()
}
