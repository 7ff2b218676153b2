//! Error texts as they are stored.

/// The longest error text that is kept, in bytes.
const MAX_ERROR_BYTES: usize = 8 * 1024;

/// A text that every database stores: PostgreSQL takes no NUL, and a failure whose text cannot be stored could not be
/// recorded at all.
pub(crate) fn storable(text: &str) -> String {
    storable_within(text, MAX_ERROR_BYTES)
}

/// The same with another length.
pub(crate) fn storable_within(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text[..end].replace('\0', "\u{fffd}");
    // The replacement is longer than what it replaces.
    if text.len() > max_bytes {
        storable_within(&text, max_bytes)
    } else {
        text
    }
}

/// The same with every other character as `\u{…}`.
pub(crate) fn in_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            ascii.extend(c.escape_unicode());
        }
    }
    storable(&ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_are_made_storable() {
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
        let long = format!("{}é", "x".repeat(MAX_ERROR_BYTES - 1));
        assert_eq!(storable(&long).len(), MAX_ERROR_BYTES - 1);
        assert!(storable(&"\0".repeat(MAX_ERROR_BYTES)).len() <= MAX_ERROR_BYTES);
    }
}
