//! Error texts.

use leasehold::__private::storable;
use proptest::prelude::*;

use crate::{fuzz, text_of};

const PIECES: &[&str] = &[
    "\0",
    "é",
    "\u{fffd}",
    "\u{10ffff}",
    "\u{202e}",
    "e\u{301}",
    "\r\n",
    "\u{1b}[31m",
    "error: ",
    "'",
    "\\",
];

#[test]
fn error_texts() {
    // Around the longest that is kept, so that any character may be the one that is cut.
    let long = (text_of(PIECES, 8), 0..3000_usize, text_of(PIECES, 8))
        .prop_map(|(piece, times, end)| format!("{}{end}", piece.repeat(times.min(20_000 / piece.len().max(1)))));
    let text = prop_oneof![any::<String>(), text_of(PIECES, 20), long];
    fuzz("error texts", &text, |text| {
        let stored = storable(&text);
        prop_assert!(stored.len() <= 8192 && !stored.contains('\0'));
        let replaced = text.replace('\0', "\u{fffd}");
        prop_assert!(replaced.starts_with(&stored));
        prop_assert!(stored.len() == text.len() || text.contains('\0') || stored.len() > 8192 - 4);
        prop_assert_eq!(&storable(&stored), &stored);
        Ok(())
    });
}
