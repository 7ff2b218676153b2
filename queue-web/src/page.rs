//! What the pages have in common.

use std::borrow::Cow;
use std::time::SystemTime;

use maud::{DOCTYPE, Markup, html};

use crate::guard::Visitor;
use crate::request::query;
use crate::texts;

pub(crate) mod actions;
pub(crate) mod batch;
pub(crate) mod batches;
pub(crate) mod failures;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod log_in;
pub(crate) mod many;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod timeline;
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
    /// Its own path and query; `None` for one that is not looked at again.
    pub(crate) here: Option<&'s Here>,
}

/// Where a page lies, and whether it comes again by itself.
#[derive(Debug)]
pub(crate) struct Here {
    /// Without what says that it comes again.
    pub(crate) path: String,
    pub(crate) refreshes: bool,
}

/// The field of a query that makes a page come again, and the seconds until then.
pub(crate) const REFRESH: &str = "refresh";
pub(crate) const SECONDS: &str = "5";

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

const PAGES: [(&str, &str); 7] = [
    ("/", texts::OVERVIEW),
    ("/queues", texts::QUEUES),
    ("/jobs", texts::JOBS),
    ("/schedules", texts::SCHEDULES),
    ("/batches", texts::BATCHES),
    ("/workers", texts::WORKERS),
    ("/actions", texts::ACTIONS),
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
                @if look.here.is_some_and(|here| here.refreshes) { meta http-equiv="refresh" content=(SECONDS); }
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
                    (refresh(look))
                    (visitor(look))
                }
                main #content tabindex="-1" { h1 { (title) } (content) }
            }
        }
    }
}

/// The switch for a page that comes again by itself, without a script.
fn refresh(look: &Look<'_>) -> Markup {
    html! {
        @if let Some(here) = look.here {
            @if here.refreshes {
                a.refresh href=(here.path) { (texts::REFRESHES) }
            } @else {
                a.refresh href={ (here.path) (if here.path.contains('?') { "&" } else { "?" }) (REFRESH) "=" (SECONDS) } {
                    (texts::REFRESH)
                }
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

/// A text as far as it is shown, and how much is not.
pub(crate) fn cut(text: &str, most: usize) -> Markup {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let left = (text.len() - end) as u64;
    html! { (&text[..end]) @if left > 0 { "… " small { (number(left)) " " (texts::BYTES_LEFT) } } }
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

/// So many jobs.
pub(crate) fn jobs_said(count: u64) -> String {
    let jobs = if count == 1 { texts::ONE_JOB } else { texts::MANY };
    format!("{} {jobs}", number(count))
}

/// Characters that no eye sees, and that may turn the order of others around.
const fn is_unseen(c: char) -> bool {
    matches!(c,
        '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A page in whose text such characters are seen. Those between the signs of a tag stay as they are: a form must send what it
/// was given. The site's own texts have none, and every `<` and `>` of others is escaped.
pub(crate) fn seen(page: String) -> String {
    if !page.contains(is_unseen) {
        return page;
    }
    let mut seen = String::with_capacity(page.len());
    let mut in_tag = false;
    for c in page.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ => {}
        }
        if !in_tag && is_unseen(c) {
            seen.push_str(&format!("[U+{:04X}]", u32::from(c)));
        } else {
            seen.push(c);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("short", 5).into_string(), "short");
        assert_eq!(cut("ééé", 3).into_string(), "é… <small>4 more bytes</small>");
    }

    #[test]
    fn what_turns_a_text_around_is_seen_outside_of_tags() {
        let page = html! { p title="a\u{202e}b" { "\u{202e}gpj\u{0}\u{feff} é\n\t" } input value="<\u{202e}>"; };
        assert_eq!(
            seen(page.into_string()),
            "<p title=\"a\u{202e}b\">[U+202E]gpj[U+0000][U+FEFF] é\n\t</p><input value=\"&lt;\u{202e}&gt;\">"
        );
    }
}
