//! Names that people choose: queues, kinds, keys.

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Empty, or longer than the limit.
    #[error("a name has 1 to {max} bytes, this one has {bytes}")]
    Length {
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// It has a character that does not show, or that turns the text around it.
    #[error("a name may not have the character U+{:04X}", u32::from(*.character))]
    Character {
        /// The first such character.
        character: char,
    },
}

/// Checks a name: 1 to `max` bytes, no control characters and none that change the direction of text.
pub(crate) fn check(name: &str, max: usize) -> Result<(), NameError> {
    if !(1..=max).contains(&name.len()) {
        return Err(NameError::Length { bytes: name.len(), max });
    }
    // Unicode's Bidi_Control characters (UAX #9), line and paragraph separators, and the byte order mark.
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    match name.chars().find(|c| hidden(*c)) {
        Some(character) => Err(NameError::Character { character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_kept_and_invisible_ones_refused() {
        for name in ["default", "it's", "; drop table jobs", "邮件", "📮", "a b"] {
            assert_eq!(check(name, 128), Ok(()), "{name}");
        }
        for name in ["a\nb", "\0", "\u{202e}abc", "\u{2067}"] {
            assert!(matches!(check(name, 128), Err(NameError::Character { .. })), "{name:?}");
        }
        assert!(check("", 128).is_err() && check(&"é".repeat(65), 128).is_err() && check(&"é".repeat(64), 128).is_ok());
    }
}
