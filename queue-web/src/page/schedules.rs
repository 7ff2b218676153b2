//! Schedules, with when they fire next.

use leasehold::schedule::ScheduleRecord;
use maud::{Markup, html};

use crate::data::{Data, Source};
use crate::page::job::secret;
use crate::page::{Look, frame, table};
use crate::{texts, time};

/// Fire times that are shown of each.
const TIMES: usize = 3;
/// Bytes of a payload.
const PAYLOAD: usize = 1000;

pub(crate) fn page(look: &Look<'_>, source: &dyn Source) -> Data<Markup> {
    let schedules = source.schedules()?;
    let mut heads = vec![
        texts::SCHEDULE,
        texts::CRON,
        texts::KIND,
        texts::QUEUE,
        texts::UPCOMING,
        texts::LAST,
        texts::MISSED,
        texts::PAYLOAD,
    ];
    if look.may_act() {
        heads.push(texts::ACTION);
    }
    let rows = html! { @for schedule in &schedules { (row(look, schedule)) } };
    let content = html! {
        @if schedules.is_empty() { p { (texts::NO_SCHEDULES) } } @else { (table(texts::SCHEDULES, &heads, &rows)) }
    };
    Ok(frame(look, texts::SCHEDULES, &content))
}

fn row(look: &Look<'_>, schedule: &ScheduleRecord) -> Markup {
    let (path, name) = match schedule.paused {
        true => ("/schedules/resume", texts::RESUME),
        false => ("/schedules/pause", texts::PAUSE),
    };
    // A newer program may have written what this one cannot read.
    let upcoming = schedule.upcoming(TIMES).unwrap_or_else(|_| vec![schedule.next_at]);
    html! {
        tr {
            th scope="row" { (schedule.name) @if schedule.paused { " " span.paused { (texts::PAUSED) } } }
            td { code { (schedule.cron) } " " small { (schedule.zone) } }
            td { (schedule.kind) }
            td { (schedule.queue) }
            td {
                @if schedule.paused { "–" } @else {
                    @for at in upcoming { div { (time::show(look.now, at)) } }
                }
            }
            td { (time::show_some(look.now, schedule.last_at)) }
            td { (schedule.missed) }
            td { (secret(look, &schedule.payload, PAYLOAD)) }
            @if look.may_act() { td { (look.button(path, &[("name", &schedule.name)], name)) } }
        }
    }
}
