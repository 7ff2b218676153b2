//! What the server answers, in words.

use std::error::Error as _;

use postgres::{Error, SimpleQueryMessage, SimpleQueryRow};

pub(crate) type Answer = Result<Vec<SimpleQueryMessage>, Error>;

/// The answer in lines: its rows, or else how many there were; an error by its SQLSTATE. Nothing for `BEGIN` and the like.
pub(crate) fn lines(statement: &str, answer: &Answer) -> Vec<String> {
    let messages = match answer {
        Ok(messages) => messages,
        Err(error) => return vec![told(error)],
    };
    let rows: Vec<String> = messages.iter().filter_map(row).collect();
    if !rows.is_empty() {
        return rows;
    }
    let verb = statement.split_whitespace().next().unwrap_or_default();
    let counts = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    });
    match verb {
        "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "WITH" => counts.map(count).collect(),
        _ => Vec::new(),
    }
}

/// `ERROR 55P03: …`, as the server words it.
pub(crate) fn told(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("ERROR {}: {}", told.code().code(), told.message()),
        None => match error.source() {
            Some(cause) => format!("ERROR: {error}: {cause}"),
            None => format!("ERROR: {error}"),
        },
    }
}

fn count(count: u64) -> String {
    match count {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    }
}

fn row(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    let columns = row.columns().iter().enumerate();
    let values = columns.map(|(number, column)| format!("{} = {}", column.name(), value(row, number)));
    // Of `SELECT` without columns there is nothing else to say.
    let values = values.collect::<Vec<_>>().join(", ");
    Some(if values.is_empty() { "1 row".to_owned() } else { values })
}

fn value(row: &SimpleQueryRow, number: usize) -> &str {
    row.get(number).unwrap_or("null")
}

/// The first value of the first row.
pub(crate) fn first(answer: &Answer) -> Option<&str> {
    answer.as_ref().ok()?.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}
