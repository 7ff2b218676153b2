//! The spans of the feature `tracing`, as a subscriber sees them, with the log lines inside of them.

#![cfg(any(feature = "sqlite", feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{Step, Then, app, prepare};
use leasehold_tests::{TestDb, conformance};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// A span's fields, and the texts of the events in it.
#[derive(Debug, Clone, Default)]
struct Seen {
    fields: BTreeMap<String, String>,
    lines: Vec<String>,
}

/// By the span's number; what is in no span is in 0.
static SEEN: Mutex<BTreeMap<u64, Seen>> = Mutex::new(BTreeMap::new());

fn seen() -> MutexGuard<'static, BTreeMap<u64, Seen>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Numbers spans by itself, for the registry gives a number again.
struct Number(u64);

struct Collect;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collect {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        attributes.record(&mut fields);
        fields
            .0
            .insert("span".to_owned(), attributes.metadata().name().to_owned());
        let mut seen = seen();
        let number = seen.keys().next_back().map_or(1, |last| last + 1);
        seen.entry(number).or_default().fields = fields.0;
        context.span(id).unwrap().extensions_mut().insert(Number(number));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let span = context.event_span(event);
        let number = span.and_then(|span| span.extensions().get::<Number>().map(|number| number.0));
        let line = fields.0.remove("message").unwrap_or_default();
        seen().entry(number.unwrap_or_default()).or_default().lines.push(line);
    }
}

fn subscribe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_log::LogTracer::init().unwrap();
        let registry = tracing_subscriber::registry().with(Collect);
        tracing::subscriber::set_global_default(registry).unwrap();
    });
}

conformance!(
    fn each_execution_has_a_span_and_its_lines_are_inside(db: &mut Db) {
        subscribe();
        let mut conn = prepare(db);
        let queue = format!("spans-{}", Db::BACKEND);
        let options = EnqueueOptions::new().queue(&queue);
        let hows = [Then::FailUntil(2), Then::Finish, Then::Discard];
        let [failing, finished, discarded] = [0, 1, 2].map(|n: usize| {
            let step = Step::now(i64::try_from(n).unwrap(), hows[n]);
            step.enqueue_with(&mut conn, &options).unwrap().id()
        });
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).queues([&queue]);
        worker.register::<Step>().run_until_empty().unwrap();
        let seen = seen();
        let of = |id: i64, attempt: u32| {
            let is_it = |seen: &&Seen| {
                let field = |name: &str| seen.fields.get(name).map_or("", String::as_str);
                field("queue") == format!("{queue:?}")
                    && field("job") == id.to_string()
                    && field("attempt") == attempt.to_string()
            };
            let mut spans = seen.values().filter(is_it);
            let span = spans
                .next()
                .unwrap_or_else(|| panic!("job {id} has no span: {seen:#?}"));
            assert!(spans.next().is_none(), "one for each execution");
            assert_eq!(span.fields["span"], "job");
            assert_eq!(span.fields["kind"], "\"step\"");
            assert_eq!(span.fields["generation"], attempt.to_string());
            let words = span.lines.iter().map(|line| line.split(' ').next().unwrap_or_default());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(failing, 1), ["begun", "retried"]);
        assert_eq!(of(failing, 2), ["begun", "completed"]);
        assert_eq!(of(finished, 1), ["begun", "completed"]);
        assert_eq!(of(discarded, 1), ["begun", "discarded"]);
        // Before its handler begins, a job has no span.
        let outside = &seen[&0].lines;
        let claimed = outside
            .iter()
            .filter(|line| line.starts_with("claimed") && line.contains(&queue));
        assert_eq!(claimed.count(), 4);
    }
);
