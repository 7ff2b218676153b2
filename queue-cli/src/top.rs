//! `top`: a live view of the queues.
//!
//! [`look`] reads what is shown, [`view`] keeps what somebody has chosen, [`draw`] paints both, and [`action`] is what a key
//! does once it was confirmed.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use leasehold::AsBackend;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::Position;

use crate::cli::Top;
use crate::database::Session;
use crate::failure::Failure;

mod action;
mod chosen;
mod draw;
mod look;
mod rows;
mod view;

use look::Look;
use view::{Pressed, View};

/// Leases count down between two looks.
const REDRAW: Duration = Duration::from_millis(500);
/// Looks that may fail in a row: a busy database is waited for, one that is gone is told.
const MISSES: u32 = 3;

pub(crate) fn run<C: AsBackend>(session: &mut Session<'_, C>, top: &Top) -> Result<(), Failure> {
    if session.output.json || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "`top` needs a terminal; programs read `stats --json`".to_owned(),
        ));
    }
    // Before the screen is taken: what fails now is told as with any other command.
    let view = View::new(Look::take(session)?);
    // A line on the standard error would be painted over the view.
    log::set_max_level(log::LevelFilter::Off);
    let mut terminal = ratatui::try_init()?;
    let outcome = watch(&mut terminal, session, top, view);
    ratatui::restore();
    outcome
}

fn watch<C: AsBackend>(
    terminal: &mut DefaultTerminal,
    session: &mut Session<'_, C>,
    top: &Top,
    mut view: View,
) -> Result<(), Failure> {
    let mut next = Instant::now() + top.interval;
    let mut misses = 0;
    // From here on another size is heard of: what a terminal drops between the first paint and the first look is lost otherwise.
    event::poll(Duration::ZERO)?;
    loop {
        terminal.draw(|frame| draw::draw(frame, &view))?;
        match pressed(&mut view, next)? {
            Pressed::Quit => return Ok(()),
            Pressed::Confirmed(action) => {
                view.say(action.take(session, &top.by));
                next = Instant::now();
            }
            // Of several sizes in a row only the last is seen, and what the terminal dropped in between is painted again.
            Pressed::Resized => {
                let size = terminal.size()?;
                terminal.resize((Position::ORIGIN, size).into())?;
            }
            Pressed::Nothing => {}
        }
        if Instant::now() < next {
            continue;
        }
        match Look::take(session) {
            Ok(look) => {
                misses = 0;
                view.show(look);
            }
            Err(failure) => {
                misses += 1;
                if misses == MISSES {
                    return Err(failure);
                }
                view.say(failure.to_string());
            }
        }
        next = Instant::now() + top.interval;
    }
}

/// Waits for a key or another size, until the view is old.
fn pressed(view: &mut View, next: Instant) -> io::Result<Pressed> {
    if !event::poll(next.saturating_duration_since(Instant::now()).min(REDRAW))? {
        return Ok(Pressed::Nothing);
    }
    match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => Ok(view.press(key)),
        Event::Resize(..) => Ok(Pressed::Resized),
        _ => Ok(Pressed::Nothing),
    }
}
