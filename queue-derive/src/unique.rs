//! `unique(…)`: what at most one job may have, and for how long.

use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, LitStr, Member, Type};

use crate::duration::parse_millis;
use crate::errors::Errors;
use crate::given::Given;
use crate::model::checked;

/// The options of `unique(…)` and their right forms, in the order in which messages list them.
pub(crate) const FORMS: [(&str, &str); 5] = [
    ("by", r#"by = "account, month""#),
    ("per_queue", "per_queue"),
    ("states", r#"states = "ready, running""#),
    ("within", r#"within = "1h""#),
    ("on_conflict", r#"on_conflict = "replace""#),
];

const STATES: [(&str, &str); 5] = [
    ("ready", "Ready"),
    ("running", "Running"),
    ("completed", "Completed"),
    ("discarded", "Discarded"),
    ("cancelled", "Cancelled"),
];

/// What is written in `unique(…)`; an option with a mistake is `None`.
#[derive(Default)]
pub(crate) struct GivenUnique {
    by: Option<LitStr>,
    per_queue: bool,
    states: Option<LitStr>,
    within: Option<LitStr>,
    on_conflict: Option<LitStr>,
}

/// Without a mistake. What is `None` or empty stays as the library has it.
pub(crate) struct Unique {
    pub(crate) fields: Vec<UniqueField>,
    pub(crate) per_queue: bool,
    /// Names of the library's states.
    pub(crate) states: Vec<&'static str>,
    /// In milliseconds.
    pub(crate) within: Option<u64>,
    /// The library's name of it.
    pub(crate) on_conflict: Option<&'static str>,
}

/// A field that a unique or limit key is made of.
pub(crate) struct UniqueField {
    /// As it is written in the option and in the key.
    pub(crate) name: String,
    pub(crate) member: Member,
    pub(crate) ty: Type,
}

impl GivenUnique {
    pub(crate) fn of(options: Vec<Given>, errors: &mut Errors) -> Self {
        let mut parsed = Self::default();
        let mut given: Vec<String> = Vec::new();
        for option in options {
            let key = option.key.to_string();
            if given.contains(&key) {
                errors.push(&option.key, format_args!("`{key}` is given twice"));
                continue;
            }
            match key.as_str() {
                "by" => parsed.by = option.text(errors),
                "per_queue" => parsed.per_queue = option.flag(errors),
                "states" => parsed.states = option.text(errors),
                "within" => parsed.within = option.text(errors),
                "on_conflict" => parsed.on_conflict = option.text(errors),
                _ => {
                    let known = FORMS.map(|(name, _)| format!("`{name}`")).join(", ");
                    errors.push(
                        &option.key,
                        format_args!("unknown option `{key}`; `unique` takes {known}"),
                    );
                }
            }
            given.push(key);
        }
        parsed
    }

    pub(crate) fn check(self, input: &DeriveInput, errors: &mut Errors) -> Unique {
        Unique {
            fields: self
                .by
                .map(|by| fields_of("unique", &by, input, errors))
                .unwrap_or_default(),
            per_queue: self.per_queue,
            states: self.states.map(|states| states_of(&states, errors)).unwrap_or_default(),
            within: self.within.and_then(|within| {
                checked(within, errors, |text| match parse_millis(text)? {
                    0 => Err("`within` must be longer than 0; leave it out for none".to_owned()),
                    millis => Ok(millis),
                })
            }),
            on_conflict: self.on_conflict.and_then(|action| checked(action, errors, action_of)),
        }
    }
}

fn states_of(given: &LitStr, errors: &mut Errors) -> Vec<&'static str> {
    let text = given.value();
    let mut found: Vec<&'static str> = Vec::new();
    for name in text.split(',').map(str::trim) {
        match STATES.iter().find(|(known, _)| *known == name) {
            None => {
                let known = STATES.map(|(name, _)| format!("`{name}`")).join(", ");
                errors.push(given, format_args!("no state `{name}`; the states are {known}"));
            }
            Some((_, state)) if found.contains(state) => {
                errors.push(given, format_args!("state `{name}` is named twice"));
            }
            Some((_, state)) => found.push(state),
        }
    }
    if !found.contains(&"Ready") {
        errors.push(
            given,
            "`states` must have `ready`: a job that waits has its key, or there would be two of them",
        );
    }
    found
}

fn action_of(text: &str) -> Result<&'static str, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    match words.as_slice() {
        ["keep"] => Ok("Keep"),
        ["replace"] => Ok("Replace"),
        ["reschedule"] => Ok("Reschedule"),
        ["replace", "reschedule"] | ["reschedule", "replace"] => Ok("ReplaceAndReschedule"),
        ["reject"] => Ok("Reject"),
        _ => Err(
            "`on_conflict` must be \"keep\", \"replace\", \"reschedule\", \"replace, reschedule\" or \"reject\""
                .to_owned(),
        ),
    }
}

/// The fields that are named, with a mistake for each that is not there.
pub(crate) fn fields_of(option: &str, by: &LitStr, input: &DeriveInput, errors: &mut Errors) -> Vec<UniqueField> {
    let fields = match &input.data {
        Data::Struct(data) => fields(&data.fields),
        _ => {
            errors.push(
                by,
                format_args!(
                    "`{option}` goes by the fields of a struct, and `{}` is none",
                    input.ident
                ),
            );
            return Vec::new();
        }
    };
    let text = by.value();
    let mut found: Vec<UniqueField> = Vec::new();
    for name in text.split(',').map(str::trim) {
        if found.iter().any(|field| field.name == name) {
            errors.push(by, format_args!("field `{name}` is named twice"));
        } else if let Some((member, ty)) = fields.iter().find(|(member, _)| spelled(member) == name) {
            found.push(UniqueField {
                name: name.to_owned(),
                member: member.clone(),
                ty: (*ty).clone(),
            });
        } else {
            let known: Vec<_> = fields
                .iter()
                .map(|(member, _)| format!("`{}`", spelled(member)))
                .collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            errors.push(
                by,
                format_args!("no field `{name}` in `{}`; its fields: {known}", input.ident),
            );
        }
    }
    found
}

fn fields(fields: &Fields) -> Vec<(Member, &Type)> {
    fields.members().zip(fields.iter().map(|field| &field.ty)).collect()
}

fn spelled(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
