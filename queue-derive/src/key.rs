//! `idempotency_key(…)`: which jobs are one request, and for how long that is remembered.

use syn::{DeriveInput, LitStr};

use crate::errors::Errors;
use crate::given::Given;
use crate::model::longer_than_0;
use crate::unique::{UniqueField, fields_of};

/// What is written in `idempotency_key(…)`; an option with a mistake is `None`.
#[derive(Default)]
pub(crate) struct GivenKey {
    by: Option<LitStr>,
    remember: Option<LitStr>,
}

/// Without a mistake.
pub(crate) struct IdempotencyKey {
    /// None: the key is given at enqueue, or random.
    pub(crate) fields: Vec<UniqueField>,
    /// In milliseconds.
    pub(crate) remember: Option<u64>,
}

impl GivenKey {
    pub(crate) fn read(option: Given, errors: &mut Errors) -> Option<Self> {
        let form = option.form();
        let mut read = Self::default();
        let mut given: Vec<String> = Vec::new();
        for option in option.inner(false, "its options in parentheses", errors)? {
            let name = option.key.to_string();
            if given.contains(&name) {
                errors.push(&option.key, format_args!("`{name}` is given twice"));
            } else if name == "by" {
                read.by = option.text_as(form, errors);
            } else if name == "remember" {
                read.remember = option.text_as(form, errors);
            } else {
                errors.push(
                    &option.key,
                    format_args!("unknown option `{name}`; `idempotency_key` takes `by`, `remember`"),
                );
            }
            given.push(name);
        }
        Some(read)
    }

    pub(crate) fn check(self, input: &DeriveInput, errors: &mut Errors) -> IdempotencyKey {
        IdempotencyKey {
            fields: self
                .by
                .map(|by| fields_of("idempotency_key", &by, input, errors))
                .unwrap_or_default(),
            remember: longer_than_0("remember", self.remember, errors),
        }
    }
}
