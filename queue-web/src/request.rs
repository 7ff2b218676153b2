//! What a request says: its query, its form, its cookies.

use std::borrow::Cow;

use http::header::COOKIE;
use http::request::Parts;
use percent_encoding::percent_decode;

/// Bytes of a query: names have 128 at the most, a text to look for few more.
pub(crate) const LONGEST_QUERY: usize = 8 * 1024;
/// The one field that is given once for each of several things: the jobs that were selected.
pub(crate) const SELECTED: &str = "job";

/// The pairs of a query or of a form.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(String, String)>);

/// It is too long, not UTF-8, says a thing twice, or has a zero byte, which PostgreSQL stores in no text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Pairs {
    /// Strictly: what is read in two ways by two programs is how one of them is deceived.
    pub(crate) fn read(text: &[u8], longest: usize) -> Result<Self, Unreadable> {
        if text.len() > longest {
            return Err(Unreadable);
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for part in text.split(|byte| *byte == b'&').filter(|part| !part.is_empty()) {
            let at = part.iter().position(|byte| *byte == b'=');
            let (name, value) = part.split_at(at.unwrap_or(part.len()));
            let (name, value) = (decoded(name)?, decoded(value.strip_prefix(b"=").unwrap_or(value))?);
            if name != SELECTED && pairs.iter().any(|(known, _)| *known == name) {
                return Err(Unreadable);
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// The value of a field, without space around it; `None` if it is empty, too.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.exact(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The value of a field as it was sent; names of queues and kinds may begin with a space.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name)?;
        Some(&found.1)
    }

    /// As [`Pairs::exact`], if it is not empty.
    pub(crate) fn name(&self, name: &str) -> Option<&str> {
        self.exact(name).filter(|value| !value.is_empty())
    }

    /// A number, if there is a value at all.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Unreadable> {
        let value = self.get(name).map(str::parse).transpose();
        value.map_err(|_| Unreadable)
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// As a query again, without some of its fields.
    pub(crate) fn without(&self, names: &[&str]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let kept = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        query.extend_pairs(kept);
        query.finish()
    }
}

fn decoded(part: &[u8]) -> Result<String, Unreadable> {
    let spaced: Vec<u8> = part
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    let text = String::from_utf8(percent_decode(&spaced).collect()).map_err(|_| Unreadable)?;
    match text.contains('\0') {
        true => Err(Unreadable),
        false => Ok(text),
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

    fn read(text: &[u8]) -> Result<Pairs, Unreadable> {
        Pairs::read(text, LONGEST_QUERY)
    }

    #[test]
    fn fields_are_decoded_and_empty_ones_count_as_absent() {
        let pairs = read(b"queue=a%26b+c&&kind=&error=%3Cscript%3E&x&a%3Db=1=2").unwrap();
        assert_eq!(pairs.get("queue"), Some("a&b c"));
        assert_eq!(pairs.get("kind"), None);
        assert_eq!(pairs.get("error"), Some("<script>"));
        assert_eq!(pairs.get("state"), None);
        assert_eq!(pairs.exact("x"), Some(""));
        assert_eq!(pairs.get("a=b"), Some("1=2"));
        assert_eq!(pairs.without(&["queue", "x", "kind", "a=b"]), "error=%3Cscript%3E");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let long = [b'a'; LONGEST_QUERY + 1];
        let texts: [&[u8]; 6] = [b"queue=a%00", b"%00", &long, b"a=1&a=2", b"a=%ff", b"%c0%af=1"];
        for text in texts {
            assert_eq!(
                read(text).unwrap_err(),
                Unreadable,
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
        assert_eq!(read(b"job=1&job=2").unwrap().all("job").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn a_number_is_one_or_nothing() {
        let pairs = read(b"a=12&b=&c=x&d=99999999999999999999").unwrap();
        assert_eq!(pairs.number::<i64>("a"), Ok(Some(12)));
        assert_eq!(pairs.number::<i64>("b"), Ok(None));
        assert_eq!(pairs.number::<i64>("c"), Err(Unreadable));
        assert_eq!(pairs.number::<i64>("d"), Err(Unreadable));
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
