//! Whether the colours of the sheet can be told apart and read, in the light and in the dark.

use std::collections::BTreeMap;

const SHEET: &str = include_str!("../../src/style.css");

/// The colours of the names in a block of the sheet.
fn colours(block: &str) -> BTreeMap<&str, [f64; 3]> {
    let part = |text: &str| f64::from(u8::from_str_radix(text, 16).unwrap()) / 255.0;
    let pairs = block
        .split(';')
        .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
    pairs
        .map(|(name, hex)| (name, [&hex[..2], &hex[2..4], &hex[4..6]].map(part)))
        .collect()
}

/// The lightness of a colour, as WCAG 2 counts it.
fn lightness(colour: [f64; 3]) -> f64 {
    let linear = |part: f64| match part <= 0.040_45 {
        true => part / 12.92,
        false => ((part + 0.055) / 1.055).powf(2.4),
    };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (lightness(one), lightness(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_colour_of_a_text_can_be_read_on_both_papers() {
    let blocks: Vec<&str> = SHEET
        .split(":root {")
        .skip(1)
        .map(|block| block.split('}').next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 2, "one for the light, one for the dark");
    for block in blocks {
        let colours = colours(block);
        assert_eq!(colours.len(), 13, "{colours:?}");
        for (name, colour) in &colours {
            for paper in ["paper", "card"] {
                let contrast = contrast(*colour, colours[paper]);
                // A line between things says nothing that is not said otherwise.
                let least = if ["paper", "card", "line"].contains(name) {
                    1.0
                } else {
                    4.5
                };
                assert!(contrast >= least, "{name} on {paper}: {contrast:.2}");
            }
        }
    }
}

#[test]
fn no_rule_has_a_colour_of_its_own() {
    let (_, rules) = SHEET.split_once("* { box-sizing").unwrap();
    for line in rules.lines() {
        let is_hex = |at: usize| line[at + 1..].chars().take(3).filter(char::is_ascii_hexdigit).count() == 3;
        let own = line.match_indices('#').any(|(at, _)| is_hex(at));
        assert!(!own && !line.contains("rgb"), "{line}");
    }
}

#[test]
fn two_colours_contrast_as_they_are_known_to() {
    let (black, white) = ([0.0; 3], [1.0; 3]);
    assert!((contrast(black, white) - 21.0).abs() < 0.01);
    let grey = [f64::from(0x76_u8) / 255.0; 3];
    assert!((contrast(grey, white) - 4.54).abs() < 0.01);
}
