//! `schedule(…)`: when a kind enqueues itself.

use proc_macro2::Ident;
use syn::{ExprPath, LitStr};

use crate::errors::Errors;
use crate::given::Given;
use crate::model;

/// The options inside and their right forms.
pub(crate) const FORMS: [(&str, &str); 5] = [
    ("cron", r#"cron = "0 3 * * *""#),
    ("zone", r#"zone = "Europe/Berlin""#),
    ("missed", r#"missed = "run once""#),
    ("name", r#"name = "nightly report""#),
    ("payload", "payload = tonight"),
];

/// A schedule as it is written; what is `None` stays as the library has it.
pub(crate) struct Schedule {
    /// The word `schedule`, for messages about what it stands for.
    pub(crate) at: Ident,
    pub(crate) cron: LitStr,
    pub(crate) zone: Option<LitStr>,
    pub(crate) missed: Option<Missed>,
    pub(crate) name: Option<LitStr>,
    /// Without it the payload is the type's default.
    pub(crate) payload: Option<ExprPath>,
}

pub(crate) enum Missed {
    Skip,
    RunOnce,
    RunAll(u32),
}

impl Schedule {
    pub(crate) fn parse(option: Given, errors: &mut Errors) -> Option<Self> {
        let (at, options) = option.list(errors)?;
        if !cfg!(feature = "schedules") {
            errors.push(&at, "`schedule` needs the feature `schedules` of leasehold");
        }
        let (mut cron, mut zone, mut missed, mut name, mut payload) = (None, None, None, None, None);
        let mut given: Vec<String> = Vec::new();
        for option in options {
            let key = option.key.to_string();
            if given.contains(&key) {
                errors.push(&option.key, format_args!("`{key}` is given twice"));
                continue;
            }
            match key.as_str() {
                "cron" => cron = option.text(errors),
                "zone" => zone = option.text(errors),
                "missed" => missed = option.text(errors),
                "name" => name = option.text(errors),
                "payload" => payload = option.path(errors),
                _ => {
                    let known: Vec<_> = FORMS.iter().map(|(name, _)| format!("`{name}`")).collect();
                    let known = known.join(", ");
                    errors.push(
                        &option.key,
                        format_args!("unknown option `{key}`; those of `schedule` are {known}"),
                    );
                }
            }
            given.push(key);
        }
        if !given.iter().any(|key| key == "cron") {
            errors.push(
                &at,
                "a schedule needs a cron text, as in `schedule(cron = \"0 3 * * *\")`",
            );
        }
        let missed = missed.and_then(|text| model::checked(text, errors, read_missed));
        let name = model::name("name", name, errors);
        let cron = cron?;
        model::checked(cron.clone(), errors, read_cron)?;
        Some(Self {
            at,
            cron,
            zone,
            missed,
            name,
            payload,
        })
    }
}

#[cfg(feature = "schedules")]
fn read_cron(text: &str) -> Result<(), String> {
    match crate::cron::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{text:?} is not a cron text: {error}")),
    }
}

/// The option is refused as a whole then.
#[cfg(not(feature = "schedules"))]
fn read_cron(_: &str) -> Result<(), String> {
    Ok(())
}

fn read_missed(text: &str) -> Result<Missed, String> {
    let at_most = || {
        let number = text.strip_prefix("run all(")?.strip_suffix(')')?;
        number.parse().ok().filter(|number| (1..=1000).contains(number))
    };
    match text {
        "skip" => Ok(Missed::Skip),
        "run once" => Ok(Missed::RunOnce),
        _ => at_most().map(Missed::RunAll).ok_or_else(|| {
            format!("{text:?} is none of \"skip\", \"run once\" and \"run all(1)\" to \"run all(1000)\"")
        }),
    }
}
