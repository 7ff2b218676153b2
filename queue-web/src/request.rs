//! What a request says: its query, its form, its cookies.

use std::borrow::Cow;

use http::header::COOKIE;
use http::request::Parts;

/// Bytes of a query or of one value: names have 255 at the most.
const LONGEST: usize = 4096;

/// The pairs of a query or of a form.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(String, String)>);

/// It is too long, or has a zero byte, which PostgreSQL stores in no text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Pairs {
    pub(crate) fn read(text: &[u8]) -> Result<Self, Unreadable> {
        if text.len() > LONGEST {
            return Err(Unreadable);
        }
        let pairs: Vec<(String, String)> = form_urlencoded::parse(text).into_owned().collect();
        match pairs.iter().any(|(_, value)| value.contains('\0')) {
            true => Err(Unreadable),
            false => Ok(Self(pairs)),
        }
    }

    /// The value of a field, without space around it; `None` if it is empty, too.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name)?;
        Some(found.1.trim()).filter(|value| !value.is_empty())
    }

    /// The value of a field as it was sent.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name)?;
        Some(&found.1)
    }
}

/// The first cookie of this name.
pub(crate) fn cookie<'p>(parts: &'p Parts, name: &str) -> Option<&'p str> {
    let all = parts.headers.get_all(COOKIE).iter();
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// A link's query, with the fields that are set.
pub(crate) fn query(pairs: &[(&str, Option<Cow<'_, str>>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_empty_ones_count_as_absent() {
        let pairs = Pairs::read(b"queue=a%26b+c&kind=&error=%3Cscript%3E").unwrap();
        assert_eq!(pairs.get("queue"), Some("a&b c"));
        assert_eq!(pairs.get("kind"), None);
        assert_eq!(pairs.get("error"), Some("<script>"));
        assert_eq!(pairs.get("state"), None);
    }

    #[test]
    fn a_zero_byte_and_too_much_of_it_are_refused() {
        assert_eq!(Pairs::read(b"queue=a%00").unwrap_err(), Unreadable);
        assert_eq!(Pairs::read(&[b'a'; LONGEST + 1]).unwrap_err(), Unreadable);
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let request = http::Request::get("/")
            .header("cookie", "a=1; b=2")
            .header("cookie", "c=3=4");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(cookie(&parts, "b"), Some("2"));
        assert_eq!(cookie(&parts, "c"), Some("3=4"));
        assert_eq!(cookie(&parts, "d"), None);
    }
}
