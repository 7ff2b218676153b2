//! The derive macro of [leasehold](https://docs.rs/leasehold), which re-exports it. Use it from there.

use proc_macro2::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::model::JobModel;

mod attr;
mod backoff;
#[cfg(feature = "schedules")]
#[allow(unreachable_pub, reason = "the library publishes its error")]
mod cron;
mod duration;
mod errors;
mod expand;
mod given;
mod key;
mod limit;
mod model;
mod schedule;
#[cfg(test)]
mod tests;
mod unique;

/// Implements `Job` for a payload type: a struct or an enum that serde can store and read back.
///
/// ```text
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "send-email", queue = "mail", max_attempts = 5, unique(by = "to"))]
/// struct SendEmail {
///     to: String,
///     subject: String,
/// }
/// ```
///
/// | Option | Value | Default |
/// | --- | --- | --- |
/// | `kind` | the stored name, 1 to 128 bytes | required |
/// | `queue` | the queue's name, 1 to 128 bytes | `"default"` |
/// | `priority` | -32768 to 32767; larger ones are claimed first | 0 |
/// | `max_attempts` | 1 to 1000000 | 20 |
/// | `backoff` | `"fixed(30s)"`, `"linear(10s..5m)"`, `"exponential(1s..1h)"` or `"list(1s, 10s, 1m)"`, each with `, jitter 20%` or without; or the path of a function | `"exponential(1s..1h)"` |
/// | `lease` | a duration, `"1s"` to `"365d"` | `"60s"` |
/// | `timeout` | a duration longer than 0 | none |
/// | `expires` | a duration longer than 0: the age at which a job is discarded instead of run | none |
/// | `unique` | `(by = "account, month")`, with `per_queue`, `states = "ready, running"`, `within = "1h"` and `on_conflict = "replace"`, each optional | any number of equal jobs |
/// | `idempotency_key` | `(by = "order", remember = "30d")`, each optional | random, remembered for a week if given |
/// | `concurrency` | `(by = "tenant", max = 2)`; `max` is 1 to 1000000, `by` optional | no limit |
/// | `serial` | `(by = "tenant")`, `by` optional: one at a time, in the order of enqueue | no limit |
/// | `rate` | `(by = "tenant", max = 100, per = "1m")`; `per` is `"1ms"` to `"365d"`, `by` optional | no limit |
/// | `schedule` | `(cron = "0 3 * * *", zone = "Europe/Berlin", missed = "run once", name = "nightly", payload = function)` | none |
/// | `version` | 1 to 1000 | 1 |
/// | `migrate` | a function that migrates older payloads; needs `version = 2` or more | refuses them |
/// | `crate` | where leasehold is, for those who re-export it | `::leasehold` |
///
/// Durations are numbers with their units, the largest first: `"500ms"`, `"30s"`, `"5m"`, `"1h30m"`, `"2d"`.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(&parse_macro_input!(input as DeriveInput)).into()
}

fn derive(input: &DeriveInput) -> TokenStream {
    match JobModel::from_input(input) {
        Ok(model) => expand::job(&model),
        Err(refused) => expand::refused(input, &refused),
    }
}
