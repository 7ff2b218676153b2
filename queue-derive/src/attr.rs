//! Reads the `#[job(…)]` attributes of a type into options of the right type. What they mean is checked by the model.

use syn::{Attribute, ExprPath, LitStr, Meta, Path};

use crate::backoff::GivenBackoff;
use crate::errors::Errors;
use crate::given::{Given, Number, options};
use crate::key::GivenKey;
use crate::limit::LimitOption;
use crate::schedule::Schedule;
use crate::unique::GivenUnique;

/// The options and their right forms, in the order in which messages list them.
pub(crate) const FORMS: &[(&str, &str)] = &[
    ("kind", r#"kind = "send-email""#),
    ("queue", r#"queue = "mail""#),
    ("priority", "priority = 10"),
    ("max_attempts", "max_attempts = 5"),
    ("backoff", r#"backoff = "exponential(1s..1h)""#),
    ("lease", r#"lease = "5m""#),
    ("timeout", r#"timeout = "20m""#),
    ("expires", r#"expires = "1h""#),
    ("unique", r#"unique(by = "account, month")"#),
    ("idempotency_key", r#"idempotency_key(by = "order")"#),
    ("concurrency", r#"concurrency(by = "tenant", max = 2)"#),
    ("rate", r#"rate(by = "tenant", max = 100, per = "1m")"#),
    ("serial", r#"serial(by = "tenant")"#),
    ("schedule", r#"schedule(cron = "0 3 * * *")"#),
    ("version", "version = 2"),
    ("migrate", "migrate = upgrade"),
    ("crate", r#"crate = "my_library::leasehold""#),
];

/// What is written in the `#[job(…)]` attributes of a type; an option with a mistake is `None`.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<Number>,
    pub(crate) max_attempts: Option<Number>,
    pub(crate) backoff: Option<GivenBackoff>,
    pub(crate) lease: Option<LitStr>,
    pub(crate) timeout: Option<LitStr>,
    pub(crate) expires: Option<LitStr>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) unique: Option<GivenUnique>,
    pub(crate) idempotency_key: Option<GivenKey>,
    pub(crate) concurrency: Option<LimitOption>,
    pub(crate) rate: Option<LimitOption>,
    pub(crate) serial: Option<LimitOption>,
    pub(crate) version: Option<Number>,
    pub(crate) migrate: Option<ExprPath>,
    pub(crate) krate: Option<Path>,
    given: Vec<String>,
}

impl Attributes {
    pub(crate) fn parse(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut parsed = Self::default();
        for attribute in attributes.iter().filter(|attribute| is_job(attribute)) {
            match &attribute.meta {
                // `#[job]` lacks no more than a kind.
                Meta::Path(_) => {}
                Meta::List(list) => {
                    for option in options(list.tokens.clone(), errors) {
                        parsed.set(option, errors);
                    }
                }
                Meta::NameValue(_) => {
                    errors.push(
                        &attribute.meta,
                        "options go in parentheses, as in `#[job(kind = \"send-email\")]`",
                    );
                }
            }
        }
        parsed
    }

    /// Whether the option is there, right or wrong.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.given.iter().any(|given| given == key)
    }

    fn set(&mut self, option: Given, errors: &mut Errors) {
        let key = option.key.to_string();
        if self.has(&key) {
            errors.push(&option.key, format_args!("`{key}` is given twice"));
            return;
        }
        match key.as_str() {
            "kind" => self.kind = option.text(errors),
            "queue" => self.queue = option.text(errors),
            "priority" => self.priority = option.number(errors),
            "max_attempts" => self.max_attempts = option.number(errors),
            "backoff" => self.backoff = option.backoff(errors),
            "lease" => self.lease = option.text(errors),
            "timeout" => self.timeout = option.text(errors),
            "expires" => self.expires = option.text(errors),
            "schedule" => self.schedule = Schedule::parse(option, errors),
            "unique" => self.unique = option.unique(errors),
            "idempotency_key" => self.idempotency_key = GivenKey::read(option, errors),
            "concurrency" => self.concurrency = LimitOption::read(option, &["max"], errors),
            "rate" => self.rate = LimitOption::read(option, &["max", "per"], errors),
            "serial" => self.serial = LimitOption::read(option, &[], errors),
            "version" => self.version = option.number(errors),
            "migrate" => self.migrate = option.path(errors),
            "crate" => self.krate = option.krate(errors),
            _ => {
                let known: Vec<_> = FORMS.iter().map(|(name, _)| format!("`{name}`")).collect();
                errors.push(
                    &option.key,
                    format_args!("unknown option `{key}`; the options are {}", known.join(", ")),
                );
            }
        }
        self.given.push(key);
    }
}

pub(crate) fn is_job(attribute: &Attribute) -> bool {
    attribute.path().is_ident("job")
}
