//! What a run says about itself, past the capture of the test runner.

use std::io::Write;

/// Writes a line to standard error, also when the test that causes it passes.
pub(crate) fn line(text: &str) {
    // One write, so that lines of parallel tests do not mix; a closed standard error must not fail a test.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
