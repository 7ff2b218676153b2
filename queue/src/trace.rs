//! A span for each execution of a job: feature `tracing`. Without it all of this is nothing.

use std::fmt;
use std::marker::PhantomData;
#[cfg(feature = "tracing")]
use std::sync::OnceLock;

use crate::events::JobInfo;

/// The span of one execution, open from its handler's begin until the job is settled.
#[derive(Debug, Default)]
pub(crate) struct JobSpan(#[cfg(feature = "tracing")] OnceLock<tracing::Span>);

impl JobSpan {
    #[cfg_attr(
        not(feature = "tracing"),
        allow(unused_variables, clippy::unused_self, reason = "there are no spans")
    )]
    pub(crate) fn open(&self, job: &JobInfo<'_>) {
        #[cfg(feature = "tracing")]
        let _ = self.0.set(tracing::info_span!(
            target: "leasehold",
            "job",
            job = job.id,
            queue = job.queue,
            kind = job.kind,
            attempt = job.attempt,
            generation = job.generation,
        ));
    }

    #[cfg_attr(not(feature = "tracing"), allow(clippy::unused_self, reason = "there are no spans"))]
    pub(crate) fn get(&self) -> SpanRef<'_> {
        SpanRef(
            PhantomData,
            #[cfg(feature = "tracing")]
            self.0.get(),
        )
    }
}

/// The span of a job, if it has one. All are equal: it is nothing that a job is known by.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpanRef<'a>(
    PhantomData<&'a ()>,
    #[cfg(feature = "tracing")] Option<&'a tracing::Span>,
);

impl<'a> SpanRef<'a> {
    /// What this thread logs until the guard is dropped belongs to the span.
    #[cfg(feature = "tracing")]
    pub(crate) fn enter(self) -> Option<tracing::span::Entered<'a>> {
        self.1.map(tracing::Span::enter)
    }

    #[cfg(not(feature = "tracing"))]
    #[allow(clippy::unused_self, reason = "there are no spans")]
    pub(crate) fn enter(self) -> NotEntered<'a> {
        NotEntered(PhantomData)
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) struct NotEntered<'a>(PhantomData<&'a ()>);

impl PartialEq for SpanRef<'_> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SpanRef<'_> {}

impl fmt::Debug for SpanRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanRef")
    }
}
