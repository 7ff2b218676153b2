//! What the pages have in common.

use std::borrow::Cow;
use std::time::SystemTime;

use leasehold::inspect::{JobRecord, State};
use maud::{DOCTYPE, Markup, html};

use crate::guard::Visitor;
use crate::request::query;
use crate::texts;

pub(crate) mod batch;
pub(crate) mod batches;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod log_in;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod workers;
pub(crate) mod workflow;

/// For whom a page is made, and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'s> {
    pub(crate) base: &'s str,
    pub(crate) visitor: &'s Visitor,
    /// Whether payloads and results are shown.
    pub(crate) payloads: bool,
    pub(crate) now: SystemTime,
}

impl Look<'_> {
    /// A link to a path of the site.
    pub(crate) fn to(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A link with a query.
    pub(crate) fn link(&self, path: &str, pairs: &[(&str, Option<Cow<'_, str>>)]) -> String {
        format!("{}{path}?{}", self.base, query(pairs))
    }

    /// Whether the visitor may do more than look.
    pub(crate) fn may_act(&self) -> bool {
        self.visitor.mark.is_some()
    }

    /// A form of one button, with what it is about.
    pub(crate) fn button(&self, path: &str, fields: &[(&str, &str)], name: &str) -> Markup {
        html! {
            @if self.may_act() {
                form method="post" action=(self.to(path)) {
                    (self.mark())
                    @for (field, value) in fields { input type="hidden" name=(field) value=(value); }
                    button { (name) }
                }
            }
        }
    }

    /// The hidden field by which a form is known to be a page's of this session.
    pub(crate) fn mark(&self) -> Markup {
        html! { @if let Some(mark) = &self.visitor.mark { input type="hidden" name="mark" value=(mark); } }
    }
}

const PAGES: [(&str, &str); 6] = [
    ("/", texts::OVERVIEW),
    ("/queues", texts::QUEUES),
    ("/jobs", texts::JOBS),
    ("/schedules", texts::SCHEDULES),
    ("/batches", texts::BATCHES),
    ("/workers", texts::WORKERS),
];

/// A whole page around its content.
pub(crate) fn frame(look: &Look<'_>, title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (texts::NAME) }
                link rel="stylesheet" href=(look.to("/style.css"));
            }
            body {
                a.skip href="#content" { (texts::SKIP) }
                header {
                    a.name href=(look.to("/")) { (texts::NAME) }
                    nav aria-label=(texts::NAVIGATION) {
                        @for (path, name) in PAGES {
                            a href=(look.to(path)) aria-current=[(name == title).then_some("page")] { (name) }
                        }
                    }
                    (visitor(look))
                }
                main #content { h1 { (title) } (content) }
            }
        }
    }
}

fn visitor(look: &Look<'_>) -> Markup {
    html! {
        p.who {
            @match &look.visitor.who {
                Some(who) => (who),
                None => (texts::READ_ONLY),
            }
        }
        @if look.visitor.by_form {
            form method="post" action=(look.to("/logout")) { (look.mark()) button.plain { (texts::LOG_OUT) } }
        }
    }
}

/// A page that only says something.
pub(crate) fn message(look: &Look<'_>, text: &str) -> Markup {
    frame(look, texts::MESSAGE, &html! { p role="alert" { (text) } })
}

/// A state, with the colour that it has everywhere.
pub(crate) fn badge(state: &str) -> Markup {
    html! { span class={ "state " (state) } { (state) } }
}

/// The state of a job as people name it: one that is ready later is scheduled.
pub(crate) fn state_of(job: &JobRecord, now: SystemTime) -> &'static str {
    match job.state {
        State::Ready if job.run_at > now => texts::SCHEDULED,
        state => state.as_str(),
    }
}

/// A table that scrolls by itself where it is wider than the screen.
pub(crate) fn table(caption: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A number in groups of three digits.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| str::from_utf8(group).ok())
        .collect();
    groups.join("\u{202f}")
}
