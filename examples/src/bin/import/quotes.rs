//! Strict quoting. The `csv` crate bears with wrong quotes, and an unclosed one would swallow the rest of the file as one
//! field.

use crate::read::Broken;

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    FieldBegin,
    Unquoted,
    Quoted,
    /// After a quote inside a quoted field: it closes the field, unless another one follows.
    Closed,
}

/// Finds the first quote that is not where RFC 4180 allows it, and line ends that would confuse the count of lines.
pub(crate) fn check(text: &str) -> Result<(), Broken> {
    let (mut at, mut line, mut opened) = (At::FieldBegin, 1, 0);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        at = match (at, byte) {
            (At::Quoted, b'"') => At::Closed,
            (At::Quoted, _) | (At::Closed, b'"') => At::Quoted,
            (At::FieldBegin, b'"') => {
                opened = line;
                At::Quoted
            }
            (_, b',' | b'\n') => At::FieldBegin,
            (at, b'\r') if bytes.peek() == Some(&b'\n') => at,
            (_, b'\r') => return Err(Broken::at(line, "a carriage return that no line feed follows")),
            (At::Closed, _) => return Err(Broken::at(line, "text after the quote that closes a field")),
            (_, b'"') => return Err(Broken::at(line, "a quote in a field that does not begin with one")),
            _ => At::Unquoted,
        };
        line += i64::from(byte == b'\n');
    }
    match at {
        At::Quoted => Err(Broken::at(opened, "a quote that is never closed")),
        _ => Ok(()),
    }
}
