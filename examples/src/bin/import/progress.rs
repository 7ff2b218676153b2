//! Progress for a log file: the bar of the library shows nothing where there is no terminal.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use leasehold::Progress;

const EVERY: Duration = Duration::from_secs(1);

/// A line now and then, and one at the end.
pub(crate) fn plain_lines() -> impl FnMut(&Progress) + Send + 'static {
    let is_terminal = stderr().is_terminal();
    let mut shown = Instant::now();
    move |progress| {
        let (done, Some(left)) = (progress.counts.ended(), progress.left) else {
            return;
        };
        let is_end = left == 0 && done > 0;
        if !is_terminal && (is_end || shown.elapsed() >= EVERY) {
            shown = Instant::now();
            eprintln!("{done} files done here, {left} left");
        }
    }
}
