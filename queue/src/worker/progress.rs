//! A ready-made progress bar for batch programs.

use indicatif::{ProgressBar, ProgressStyle};

use super::{Progress, Worker};
use crate::backend::Backend;

impl<C: Backend, A: Send + Sync + 'static> Worker<C, A> {
    /// Shows a progress bar on standard error while [`Worker::run_until_empty`] runs; nothing where that is not a terminal.
    #[must_use]
    pub fn progress_bar(self) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} jobs, {elapsed}{msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(0).with_style(style);
        self.on_progress(move |progress: &Progress| {
            let ended = progress.counts.ended();
            bar.set_length(ended + progress.left.unwrap_or_default());
            bar.set_position(ended);
            if progress.counts.retried > 0 {
                bar.set_message(format!(", {} retried", progress.counts.retried));
            }
            if progress.left == Some(0) {
                bar.finish();
            }
        })
    }
}
