//! Payloads: what was stored, by whomever.

use std::collections::BTreeMap;

use leasehold::__private::{Value, decode, is_storable_json, storable};
use leasehold::Job;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{fuzz, text_of};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "odd", version = 3, migrate = upgrade)]
struct Odd {
    number: i64,
    small: u8,
    float: f64,
    text: String,
    letter: char,
    inner: Option<Box<Odd>>,
    map: BTreeMap<String, Value>,
    choice: Choice,
    pair: (bool, Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Choice {
    Unit,
    One(i128),
    Named { a: Option<u64> },
}

fn upgrade(from: u32, mut old: Value) -> Result<Value, String> {
    match (from, old.as_object_mut()) {
        (0, _) | (_, None) => Err(format!("no object of version {from}: {old}")),
        (_, Some(fields)) => {
            fields.insert("small".to_owned(), from.into());
            Ok(old)
        }
    }
}

fn odd() -> impl Strategy<Value = Odd> {
    let choice = prop_oneof![
        Just(Choice::Unit),
        any::<i64>().prop_map(|n| Choice::One(i128::from(n) * 3)),
        any::<Option<u64>>().prop_map(|a| Choice::Named { a }),
    ];
    let map = prop::collection::btree_map(any::<String>(), any::<i64>().prop_map(Value::from), 0..3);
    let one = (
        any::<(i64, u8, f64, String, char)>(),
        choice,
        map,
        any::<(bool, Vec<u8>)>(),
    );
    let one = one.prop_map(|((number, small, float, text, letter), choice, map, pair)| Odd {
        number,
        small,
        float,
        text,
        letter,
        inner: None,
        map,
        choice,
        pair,
    });
    prop::collection::vec(one, 1..4).prop_map(|odds| {
        let nested = odds.into_iter().reduce(|inner, outer| Odd {
            inner: Some(Box::new(inner)),
            ..outer
        });
        nested.unwrap()
    })
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "null",
    "true",
    "1e999",
    "-0",
    "0.1",
    "1E-5",
    "\"number\"",
    "\"small\"",
    "\"float\"",
    "\"text\"",
    "\"letter\"",
    "\"inner\"",
    "\"map\"",
    "\"choice\"",
    "\"pair\"",
    "\"Unit\"",
    "\"One\"",
    "340282366920938463463374607431768211456",
];

/// A right payload with a part of it gone and something else in its place.
fn damaged() -> impl Strategy<Value = String> {
    (odd(), any::<prop::sample::Index>(), 0..12_usize, text_of(PIECES, 4)).prop_map(|(odd, place, length, new)| {
        let text: Vec<char> = serde_json::to_string(&odd).unwrap().chars().collect();
        let from = place.index(text.len());
        let to = (from + length).min(text.len());
        text[..from]
            .iter()
            .copied()
            .chain(new.chars())
            .chain(text[to..].iter().copied())
            .collect()
    })
}

#[test]
fn payloads() {
    let nested = (
        1..300_usize,
        prop::sample::select(&["[", "{\"inner\":", "{\"map\":{\"a\":"][..]),
    )
        .prop_map(|(depth, open)| open.repeat(depth));
    let text = prop_oneof![4 => damaged(), 2 => text_of(PIECES, 40), 1 => nested, 1 => any::<String>()];
    let version = prop_oneof![4 => -1..6_i32, 1 => any::<i32>()];
    fuzz("payloads", &(text, version), |(text, version)| {
        match decode::<Odd>(version, &text) {
            Ok(odd) => {
                let again = serde_json::to_string(&odd).unwrap();
                prop_assert_eq!(decode::<Odd>(3, &again).map_err(|error| error.to_string()), Ok(odd));
            }
            Err(error) => prop_assert!(!storable(&error.to_string()).is_empty()),
        }
        Ok(())
    });
}

#[test]
fn payloads_that_are_accepted_come_back() {
    fuzz("payloads that are accepted", &odd(), |odd| {
        let text = serde_json::to_string(&odd).unwrap();
        // A NUL in a text is all that such a payload can be refused for.
        prop_assert_eq!(
            is_storable_json(&text),
            !serde_json::to_string(&text).unwrap().contains("\\\\u0000")
        );
        prop_assert_eq!(decode::<Odd>(3, &text).map_err(|error| error.to_string()), Ok(odd));
        Ok(())
    });
}
