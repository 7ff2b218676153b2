//! Reading: from a file's bytes to the rows that are imported. Nothing here knows of jobs or databases.

use std::collections::HashSet;
use std::fmt;

use csv::{ErrorKind, Position, StringRecord};
use serde::Serializer as _;
use sha2::{Digest, Sha256};

use crate::quotes;

/// One record of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The line on which it begins, the header's being 1.
    pub(crate) line: i64,
    /// A JSON object: the header's names with this record's fields, in the file's order.
    pub(crate) record: String,
}

/// Why a file is not imported, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) line: i64,
    pub(crate) why: String,
}

impl Broken {
    pub(crate) fn at(line: i64, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// What tells one content of a file from another: its SHA-256.
pub(crate) fn content_hash(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Every record of a file, or the first reason not to import any.
pub(crate) fn rows(content: &[u8]) -> Result<Vec<Row>, Broken> {
    let text = utf8(content)?;
    quotes::check(text)?;
    let mut lines = Lines {
        text: text.as_bytes(),
        byte: 0,
        line: 1,
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| broken(&error, &mut lines))?.clone();
    check_header(&header)?;
    let mut rows = Vec::new();
    for record in reader.into_records() {
        let record = record.map_err(|error| broken(&error, &mut lines))?;
        let line = lines.of(record.position());
        let record = json(&header, &record).map_err(|error| Broken::at(line, error.to_string()))?;
        rows.push(Row { line, record });
    }
    Ok(rows)
}

fn utf8(content: &[u8]) -> Result<&str, Broken> {
    let text = std::str::from_utf8(content).map_err(|error| {
        let before = &content[..error.valid_up_to()];
        Broken::at(1 + line_feeds(before), "not UTF-8")
    })?;
    // The mark that some programs put before their text belongs to no column's name.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn line_feeds(bytes: &[u8]) -> i64 {
    bytes.iter().map(|byte| i64::from(*byte == b'\n')).sum()
}

/// Counts lines from record to record. The `csv` crate's own count points before the empty lines and line ends that it
/// skips to get to a record.
struct Lines<'a> {
    text: &'a [u8],
    byte: usize,
    line: i64,
}

impl Lines<'_> {
    fn of(&mut self, position: Option<&Position>) -> i64 {
        let reported = position
            .and_then(|position| usize::try_from(position.byte()).ok())
            .unwrap_or(self.byte);
        let skipped = self.text[reported..]
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        let begin = reported + skipped;
        self.line += line_feeds(&self.text[self.byte..begin]);
        self.byte = begin;
        self.line
    }
}

fn broken(error: &csv::Error, lines: &mut Lines<'_>) -> Broken {
    let line = lines.of(error.position());
    match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Broken::at(line, format!("{len} fields where the header has {expected_len}"))
        }
        _ => Broken::at(line, error.to_string()),
    }
}

fn check_header(header: &StringRecord) -> Result<(), Broken> {
    if header.is_empty() {
        return Err(Broken::at(1, "no header"));
    }
    let mut seen = HashSet::new();
    match header.iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Broken::at(1, format!("two columns have the name {name:?}"))),
        None => Ok(()),
    }
}

fn json(header: &StringRecord, record: &StringRecord) -> serde_json::Result<String> {
    let mut object = Vec::new();
    serde_json::Serializer::new(&mut object).collect_map(header.iter().zip(record))?;
    Ok(String::from_utf8_lossy(&object).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<i64> {
        rows(content.as_bytes()).unwrap().iter().map(|row| row.line).collect()
    }

    fn why(content: &[u8]) -> String {
        rows(content).unwrap_err().to_string()
    }

    #[test]
    fn a_record_is_an_object_in_the_order_of_the_header() {
        let rows = rows(b"name,city\n\"O, \"\"X\"\"\",\nY,\"a\nb\"\n").unwrap();
        assert_eq!(rows[0].record, r#"{"name":"O, \"X\"","city":""}"#);
        assert_eq!(rows[1].record, r#"{"name":"Y","city":"a\nb"}"#);
    }

    #[test]
    fn lines_are_counted_as_an_editor_counts_them() {
        assert_eq!(lines("a,b\n1,2\n3,4"), [2, 3]);
        assert_eq!(lines("a,b\r\n1,2\r\n3,4\r\n"), [2, 3]);
        assert_eq!(lines("\n\na,b\n\n1,\"x\n\ny\"\n\n\n3,4\n"), [5, 10]);
        assert_eq!(lines("\u{feff}\"a\",b\r\n\r\n1,2"), [3]);
        assert!(lines("a,b\n").is_empty());
    }

    #[test]
    fn a_broken_file_is_told_with_its_line() {
        assert_eq!(why(b""), "line 1: no header");
        assert_eq!(why(b"a,b,a\n"), "line 1: two columns have the name \"a\"");
        assert_eq!(
            why(b"a,b\r\n\r\n1,2\r\n3\r\n"),
            "line 4: 1 fields where the header has 2"
        );
        assert_eq!(why(b"a,b\n1,2\n\xff,4\n"), "line 3: not UTF-8");
        assert_eq!(why(b"a,b\n1,\"2\n3,4\n"), "line 2: a quote that is never closed");
        assert_eq!(
            why(b"a,b\n1,\"2\" x\n"),
            "line 2: text after the quote that closes a field"
        );
        assert_eq!(
            why(b"a,b\n1,2\" x\n"),
            "line 2: a quote in a field that does not begin with one"
        );
        assert_eq!(
            why(b"a,b\r1,2\r"),
            "line 1: a carriage return that no line feed follows"
        );
    }
}
