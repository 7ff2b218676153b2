//! The limits of a kind: `concurrency(…)`, `rate(…)` and `serial(…)`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{DeriveInput, LitStr, Path};

use crate::duration::{self, DAY};
use crate::errors::Errors;
use crate::given::{Given, Number};
use crate::model::{checked, number};
use crate::unique::{UniqueField, fields_of};

/// One limit as it is written.
pub(crate) struct LimitOption {
    key: Ident,
    by: Option<LitStr>,
    max: Option<Number>,
    per: Option<LitStr>,
}

/// The limits of a job type without a mistake.
pub(crate) struct Limit {
    concurrency: Option<u32>,
    /// So many in so many milliseconds.
    rate: Option<(u32, u64)>,
    serial: bool,
    /// The fields that it goes by; none: all jobs of the kind together.
    pub(crate) by: Vec<UniqueField>,
}

impl LimitOption {
    /// What is in the parentheses, which must have `needs`.
    pub(crate) fn read(option: Given, needs: &[&str], errors: &mut Errors) -> Option<Self> {
        let key = option.key.clone();
        let form = option.form();
        let inner = option.inner(needs.is_empty(), "its options in parentheses", errors)?;
        let mut read = Self {
            key,
            by: None,
            max: None,
            per: None,
        };
        let mut given: Vec<String> = Vec::new();
        for option in inner {
            let name = option.key.to_string();
            if given.contains(&name) {
                errors.push(&option.key, format_args!("`{name}` is given twice"));
            } else if name == "by" {
                read.by = option.text_as(form, errors);
            } else if name == "max" && needs.contains(&"max") {
                read.max = option.number_as(form, errors);
            } else if name == "per" && needs.contains(&"per") {
                read.per = option.text_as(form, errors);
            } else {
                let message = format_args!("unknown option `{name}` of `{}`, as in `{form}`", read.key);
                errors.push(&option.key, message);
            }
            given.push(name);
        }
        let mut complete = true;
        for need in needs {
            if !given.iter().any(|name| name == need) {
                errors.push(&read.key, format_args!("`{}` needs `{need}`, as in `{form}`", read.key));
                complete = false;
            }
        }
        complete.then_some(read)
    }

    /// The fields that it goes by, as they are written.
    fn names(&self) -> Vec<String> {
        let text = self.by.as_ref().map(LitStr::value).unwrap_or_default();
        let mut names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        names.sort();
        names
    }
}

impl Limit {
    /// Of the options `concurrency`, `rate` and `serial`.
    pub(crate) fn of(options: [Option<LimitOption>; 3], input: &DeriveInput, errors: &mut Errors) -> Option<Self> {
        let [concurrency, rate, serial] = options;
        let by = of_one_key([&concurrency, &rate, &serial], input, errors);
        if let (Some(serial), true) = (&serial, concurrency.is_some()) {
            errors.push(
                &serial.key,
                "`serial` runs one job at a time: leave out `concurrency`, or `serial` if their order does not matter",
            );
        }
        let is_serial = serial.is_some();
        let max = |option: Option<Number>, errors: &mut Errors| number::<u32>("max", option, 1..=1_000_000, errors);
        let concurrency = concurrency.map(|option| max(option.max, errors));
        let rate = rate.map(|option| {
            let per = option.per.and_then(|per| checked(per, errors, parse_per));
            max(option.max, errors).zip(per)
        });
        (concurrency.is_some() || rate.is_some() || is_serial).then(|| Self {
            concurrency: concurrency.flatten(),
            rate: rate.flatten(),
            serial: is_serial,
            by,
        })
    }

    pub(crate) fn constant(&self, krate: &Path) -> TokenStream {
        let concurrency = self.concurrency.map(|max| quote!(.concurrency(#max)));
        let rate = self
            .rate
            .map(|(max, per)| quote!(.rate(#max, ::core::time::Duration::from_millis(#per))));
        let serial = self.serial.then(|| quote!(.serial()));
        quote!(const LIMIT: #krate::Limit = #krate::Limit::none() #concurrency #rate #serial;)
    }
}

/// What they go by, which must be the same: a job waits under one key.
fn of_one_key(options: [&Option<LimitOption>; 3], input: &DeriveInput, errors: &mut Errors) -> Vec<UniqueField> {
    let mut options = options.into_iter().flatten();
    let Some(first) = options.next() else { return Vec::new() };
    for other in options {
        if other.names() != first.names() {
            let message = format!(
                "`{}` and `{}` must go by the same fields: a job waits for both under one key",
                first.key, other.key
            );
            errors.push(&other.key, message);
        }
    }
    let by = first.by.as_ref();
    by.map(|by| fields_of(&first.key.to_string(), by, input, errors))
        .unwrap_or_default()
}

fn parse_per(text: &str) -> Result<u64, String> {
    match duration::parse_millis(text)? {
        millis if (1..=365 * DAY).contains(&millis) => Ok(millis),
        _ => Err("`per` must be 1ms to 365d".to_owned()),
    }
}
