//! Backoffs as they are written in options: a shape in quotes, or the path of a function.

use syn::{ExprPath, LitStr};

use crate::duration::parse_millis;
use crate::errors::Errors;
use crate::model::checked;

/// What `backoff = …` is given.
pub(crate) enum GivenBackoff {
    Text(LitStr),
    Function(ExprPath),
}

pub(crate) struct Backoff {
    pub(crate) shape: Shape,
    /// In hundredths; 0 for none.
    pub(crate) jitter: u8,
}

/// In milliseconds.
pub(crate) enum Shape {
    Fixed(u64),
    Linear { step: u64, max: u64 },
    Exponential { first: u64, max: u64 },
    List(Vec<u64>),
    Function(ExprPath),
}

pub(crate) fn backoff(given: GivenBackoff, errors: &mut Errors) -> Option<Backoff> {
    match given {
        GivenBackoff::Text(text) => checked(text, errors, parse),
        GivenBackoff::Function(path) => Some(Backoff {
            shape: Shape::Function(path),
            jitter: 0,
        }),
    }
}

fn parse(text: &str) -> Result<Backoff, String> {
    let malformed = || {
        format!(
            "{text:?} is not a backoff: write \"fixed(30s)\", \"linear(10s..5m)\", \"exponential(1s..1h)\" \
             or \"list(1s, 10s, 1m)\", with \", jitter 20%\" at the end or without, or the path of a function"
        )
    };
    let (name, inside) = text
        .strip_suffix(')')
        .and_then(|text| text.split_once('('))
        .ok_or_else(malformed)?;
    let mut waits: Vec<&str> = inside.split(',').map(str::trim).collect();
    let jitter = match waits.last().and_then(|last| last.strip_prefix("jitter")) {
        Some(percent) => {
            waits.pop();
            parse_jitter(percent)?
        }
        None => 0,
    };
    let shape = match (name, waits.as_slice()) {
        ("fixed", [wait]) if !wait.contains("..") => Shape::Fixed(parse_millis(wait)?),
        ("linear", [range]) => {
            let (step, max) = parse_range(range).ok_or_else(malformed)??;
            Shape::Linear { step, max }
        }
        ("exponential", [range]) => {
            let (first, max) = parse_range(range).ok_or_else(malformed)??;
            Shape::Exponential { first, max }
        }
        ("list", [_, ..]) if !inside.contains("..") => {
            let waits = waits.into_iter().map(parse_millis);
            Shape::List(waits.collect::<Result<_, _>>()?)
        }
        _ => return Err(malformed()),
    };
    Ok(Backoff { shape, jitter })
}

/// `None` if it is no range.
fn parse_range(text: &str) -> Option<Result<(u64, u64), String>> {
    let (first, max) = text.split_once("..")?;
    let range = || {
        let (first, max) = (parse_millis(first)?, parse_millis(max)?);
        if first == 0 || first > max {
            return Err("the first wait must be longer than 0 and not longer than the last".to_owned());
        }
        Ok((first, max))
    };
    Some(range())
}

fn parse_jitter(text: &str) -> Result<u8, String> {
    let percent = text.strip_prefix(' ').and_then(|text| text.strip_suffix('%'));
    let percent = percent.and_then(|digits| digits.parse().ok());
    percent
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| "the jitter must be 1% to 100%, as in \"exponential(1s..1h, jitter 20%)\"".to_owned())
}
