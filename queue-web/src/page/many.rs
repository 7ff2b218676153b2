//! What is done to many jobs at once, once a person has seen how many.

use http::StatusCode;
use leasehold::inspect::Count;
use maud::{Markup, html};

use crate::act::MOST_AT_ONCE;
use crate::data::Source;
use crate::guard::Denied;
use crate::page::{Look, frame, jobs, jobs_said, number};
use crate::request::{Pairs, SELECTED};
use crate::respond::{Answer, Refused};
use crate::route::ManyDeed;
use crate::search::{self, Wanted};
use crate::texts;

/// Jobs of those that are meant that the question shows.
const SHOWN: usize = 10;

/// The list as a form, with a button for each deed that its state allows.
pub(crate) fn choose(look: &Look<'_>, query: &Pairs, state: Option<&str>, list: &Markup) -> Markup {
    let deeds = state.map(ManyDeed::of).unwrap_or_default();
    if !look.may_act() || deeds.is_empty() {
        return html! {
            (list)
            @if look.may_act() && state.is_none() { p.hint { (texts::CHOOSE_STATE) } }
        };
    }
    html! {
        form method="get" {
            (kept(query))
            (list)
            div.actions {
                @for deed in deeds {
                    button formaction=(look.to(&deed.path())) name="which" value=(SELECTED) { (deed.name()) " " (texts::SELECTED) "…" }
                    button formaction=(look.to(&deed.path())) name="which" value="all" { (deed.name()) " " (texts::ALL_FOUND) "…" }
                }
            }
        }
    }
}

/// Asks whether it is to be done, and to how many.
pub(crate) fn page(look: &Look<'_>, source: &dyn Source, deed: ManyDeed, query: &Pairs) -> Result<Answer, Refused> {
    let mut wanted = Wanted::read(query)?;
    wanted.from = None;
    if !look.may_act() {
        return Err(Denied::ReadOnly.into());
    }
    let state = wanted.state.filter(|state| ManyDeed::of(state).contains(&deed));
    let state = state.ok_or(Refused::Unreadable)?;
    let (ids, count, list) = match query.get("which") {
        Some(SELECTED) => (selected(query)?, None, html! {}),
        Some("all") => {
            let (mut found, count) = source.jobs(&wanted, MOST_AT_ONCE)?;
            let ids: Vec<i64> = found.jobs.iter().map(|job| job.id).collect();
            found.jobs.truncate(SHOWN);
            (ids, count, jobs::list(look, &found.jobs, false))
        }
        _ => return Err(Refused::Unreadable),
    };
    let content = html! {
        @if ids.is_empty() {
            p { (texts::NONE_SELECTED) }
        } @else {
            p { strong { (deed.name()) " " (jobs_said(ids.len() as u64)) "?" } " " (rest(&ids, count)) }
            (form(look, deed, query, state, &ids))
            (list)
            @if count.is_some() && ids.len() > SHOWN {
                p { (number((ids.len() - SHOWN) as u64)) " " (texts::NOT_SHOWN) }
            }
            @if count.is_none() { p { @for id in &ids { a href=(look.to(&format!("/jobs/{id}"))) { (id) } " " } } }
        }
        p { a href=(look.link("/jobs", &search::fields(query))) { (texts::BACK) } }
    };
    let title = format!("{} {}", deed.name(), texts::MANY_JOBS);
    Ok(Answer::Page(StatusCode::OK, frame(look, &title, &content)))
}

fn selected(query: &Pairs) -> Result<Vec<i64>, Refused> {
    let ids: Result<Vec<i64>, _> = query.all(SELECTED).map(str::parse).collect();
    let ids = ids.map_err(|_| Refused::Unreadable)?;
    (ids.len() <= MOST_AT_ONCE).then_some(ids).ok_or(Refused::Unreadable)
}

/// What is left where more were found than are done at once.
fn rest(ids: &[i64], count: Option<Count>) -> String {
    match count {
        Some(count) if count.more && ids.len() >= MOST_AT_ONCE => {
            format!("{} {}. {}", texts::OF_MORE_THAN, number(count.rows), texts::REPEAT)
        }
        Some(count) if count.rows > ids.len() as u64 => {
            format!("{} {}. {}", texts::OF_ALL, number(count.rows), texts::REPEAT)
        }
        Some(count) if count.more => texts::OLDER_LEFT.to_owned(),
        _ => String::new(),
    }
}

fn form(look: &Look<'_>, deed: ManyDeed, query: &Pairs, state: &str, ids: &[i64]) -> Markup {
    let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    html! {
        form.fields method="post" action=(look.to(&deed.path())) {
            (look.mark())
            (kept(query))
            input type="hidden" name="ids" value=(list);
            @if deed == ManyDeed::Cancel && state == texts::RUNNING {
                label { (texts::HOW)
                    select name="how" {
                        option value="soft" { (texts::SOFT) }
                        option value="hard" { (texts::HARD) }
                    }
                }
            }
            @if deed != ManyDeed::Requeue { label { (texts::REASON) input name="reason" maxlength="500"; } }
            button.danger { (deed.name()) " " (jobs_said(ids.len() as u64)) }
        }
    }
}

/// What was asked for, so that the way leads back to it.
fn kept(query: &Pairs) -> Markup {
    html! {
        @for (name, value) in search::fields(query) {
            @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
        }
    }
}

/// What was done, by the query of the page that it led to: nothing but numbers is taken from there.
pub(crate) fn done(query: &Pairs) -> Option<String> {
    let deed = ManyDeed::read(query.get("deed")?)?;
    let done: u32 = query.number("done").ok()??;
    let of: u32 = query.number("of").ok()??;
    let left = if done < of { texts::CHANGED_MEANWHILE } else { "" };
    Some(format!(
        "{}: {} {} {}. {left}",
        deed.name(),
        number(done.into()),
        texts::OF,
        number(of.into())
    ))
}
