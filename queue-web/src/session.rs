//! Tokens, sessions and the marks of forms. What a browser carries is signed, and compared in constant time; nothing of it is
//! stored but which sessions have ended early.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::time::millis;

/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Bytes of a name that somebody gives for what they do.
const LONGEST_NAME: usize = 100;

/// What signs sessions and forms.
pub(crate) struct Key([u8; 32]);

impl Key {
    /// Known to this process alone.
    pub(crate) fn random() -> Self {
        let mut hash = Sha256::new();
        hash.update(Uuid::new_v4());
        hash.update(Uuid::new_v4());
        hash.update(Uuid::new_v4());
        Self(hash.finalize().into())
    }

    /// The same in every process with this token: sessions outlast a restart, and end when the token is changed.
    pub(crate) fn of_token(token: &str) -> Self {
        Self(tag(&Sha256::digest(token).into(), &[b"leasehold-web sessions"]))
    }

    /// A new session in the name of somebody, as the cookie's value.
    pub(crate) fn begin(&self, who: &str, now: SystemTime) -> String {
        let mut payload = millis(now + LASTS).to_be_bytes().to_vec();
        payload.extend(Uuid::new_v4().as_bytes());
        payload.extend(shortened(who).as_bytes());
        let signature = tag(&self.0, &[b"session", &payload]);
        format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(&payload),
            URL_SAFE_NO_PAD.encode(signature)
        )
    }

    /// In whose name a session is, if it is one of ours and lasts.
    pub(crate) fn session(&self, value: &str, now: SystemTime) -> Option<String> {
        let (payload, signature) = value.split_once('.')?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !same(&tag(&self.0, &[b"session", &payload]), &signature) {
            return None;
        }
        let (expires, rest) = payload.split_first_chunk::<8>()?;
        if i64::from_be_bytes(*expires) <= millis(now) {
            return None;
        }
        let (_, who) = rest.split_first_chunk::<16>()?;
        String::from_utf8(who.to_vec()).ok()
    }

    /// The mark in the forms of one session.
    pub(crate) fn mark(&self, session: &str) -> String {
        URL_SAFE_NO_PAD.encode(tag(&self.0, &[b"form", session.as_bytes()]))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Sessions that their visitors ended before their time, kept until then by the process that was told: a cookie that somebody
/// has copied ends with them.
#[derive(Debug, Default)]
pub(crate) struct Over(Mutex<HashMap<[u8; 32], SystemTime>>);

impl Over {
    pub(crate) fn end(&self, session: &str, now: SystemTime) {
        let mut over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        over.retain(|_, until| *until > now);
        over.insert(Sha256::digest(session).into(), now + LASTS);
    }

    pub(crate) fn has(&self, session: &str) -> bool {
        let over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hash: [u8; 32] = Sha256::digest(session).into();
        over.contains_key(&hash)
    }
}

/// A text that must be known, kept as its hash.
#[derive(Clone, Copy)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn new(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// By the hashes, whose comparison says nothing of the length either.
    pub(crate) fn is(&self, text: &str) -> bool {
        same(&self.0, &Sha256::digest(text))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// In constant time.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Each part with its length before it, so that no two lists of parts are signed alike.
fn tag(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // As long as a block: HMAC fills a shorter key with zeros anyway.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as Mac>::new(&block.into());
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_by_its_key_alone_and_until_it_ends() {
        let (key, now) = (Key::of_token("a token of some length"), SystemTime::now());
        let session = key.begin("Ada", now);
        assert_eq!(key.session(&session, now), Some("Ada".to_owned()));
        assert_eq!(key.session(&session, now + LASTS), None);
        assert_eq!(Key::random().session(&session, now), None);
        let same = Key::of_token("a token of some length");
        assert_eq!(same.session(&session, now), Some("Ada".to_owned()));
    }

    #[test]
    fn a_session_that_was_changed_is_none() {
        let (key, now) = (Key::random(), SystemTime::now());
        let session = key.begin("Ada", now);
        let (payload, signature) = session.split_once('.').unwrap();
        let mut bytes = URL_SAFE_NO_PAD.decode(payload).unwrap();
        bytes[0] ^= 1;
        let later = format!("{}.{signature}", URL_SAFE_NO_PAD.encode(&bytes));
        assert_eq!(key.session(&later, now), None);
        for other in ["", ".", "a.b", payload, "é.é"] {
            assert_eq!(key.session(other, now), None, "{other}");
        }
        assert_ne!(key.mark(&session), key.mark(&later));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let (key, now) = (Key::random(), SystemTime::now());
        let session = key.begin(&"é".repeat(80), now);
        assert_eq!(key.session(&session, now), Some("é".repeat(50)));
    }

    #[test]
    fn a_session_that_ended_early_is_forgotten_when_it_would_have_ended() {
        let (over, now) = (Over::default(), SystemTime::now());
        over.end("one", now);
        assert!(over.has("one") && !over.has("another"));
        over.end("another", now + LASTS);
        assert!(!over.has("one") && over.has("another"));
    }

    #[test]
    fn a_token_is_compared_whole() {
        let token = Token::new("sesame, open the door");
        assert!(token.is("sesame, open the door"));
        assert!(!token.is("sesame, open the doo"));
        assert!(!token.is(""));
    }
}
