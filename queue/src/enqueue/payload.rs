//! What a payload may be.

use std::borrow::Cow;

use super::EnqueueError;

/// The largest payload, in bytes of JSON.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The deepest nesting of a payload; the decoder refuses more than 127.
pub(crate) const MAX_PAYLOAD_DEPTH: usize = 100;

/// Why a JSON text cannot be stored, or not be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unstorable {
    TooLarge { bytes: usize },
    TooDeep,
    Nul,
}

pub(super) fn check_payload(kind: Cow<'static, str>, json: &str) -> Result<(), EnqueueError> {
    check_json(json).map_err(|unstorable| match unstorable {
        Unstorable::TooLarge { bytes } => EnqueueError::PayloadTooLarge { kind, bytes },
        Unstorable::TooDeep => EnqueueError::PayloadTooDeep { kind },
        Unstorable::Nul => EnqueueError::PayloadNul { kind },
    })
}

/// Walks the JSON text once: its length, its depth, and NUL characters in texts.
pub(crate) fn check_json(json: &str) -> Result<(), Unstorable> {
    if json.len() > MAX_PAYLOAD_BYTES {
        return Err(Unstorable::TooLarge { bytes: json.len() });
    }
    let (mut depth, mut in_text) = (0_usize, false);
    let mut rest = json.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (in_text, byte) {
            (true, b'\\') if rest.starts_with(b"u0000") => return Err(Unstorable::Nul),
            (true, b'\\') => rest = rest.get(1..).unwrap_or_default(),
            (true, b'"') => in_text = false,
            (false, b'"') => in_text = true,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth -= 1,
            _ => {}
        }
        if depth > MAX_PAYLOAD_DEPTH {
            return Err(Unstorable::TooDeep);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_walked_once_for_length_depth_and_nul() {
        assert!(check_payload("k".into(), r#"{"a":"\\u0000 [[[ \" ]]]"}"#).is_ok());
        assert!(matches!(
            check_payload("k".into(), r#"{"a\u0000":1}"#),
            Err(EnqueueError::PayloadNul { .. })
        ));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check_payload("k".into(), &nested(MAX_PAYLOAD_DEPTH)).is_ok());
        assert!(matches!(
            check_payload("k".into(), &nested(MAX_PAYLOAD_DEPTH + 1)),
            Err(EnqueueError::PayloadTooDeep { .. })
        ));
        let long = format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES));
        assert!(matches!(
            check_payload("k".into(), &long),
            Err(EnqueueError::PayloadTooLarge { .. })
        ));
    }
}
