//! Who asks, by which name, and from where: checked before anything is read.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use uuid::Uuid;

use crate::request::cookie;
use crate::session::{Key, LASTS, Over, Token, same};
use crate::texts;

pub(crate) type Hook = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

const SESSION: &str = "leasehold_session";
/// For those whom the program's own function names, who have no session with us: what the marks of their forms are made of.
const SEED: &str = "leasehold_seed";

pub(crate) struct Guard {
    pub(crate) key: Key,
    pub(crate) token: Option<Token>,
    pub(crate) hook: Option<Hook>,
    pub(crate) hosts: Vec<String>,
    pub(crate) check_hosts: bool,
    pub(crate) secure: bool,
    pub(crate) base: String,
    pub(crate) over: Over,
}

/// Whoever has asked.
#[derive(Debug, Default)]
pub(crate) struct Visitor {
    /// `None` where nobody is asked who they are: they may look only.
    pub(crate) who: Option<String>,
    /// What their forms carry. `None` for a bearer token, which no browser sends by itself.
    pub(crate) mark: Option<String>,
    /// A cookie that is to be set.
    pub(crate) cookie: Option<String>,
    /// Whether they came in by the form, and may go out again.
    pub(crate) by_form: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It is asked for under another name.
    Host,
    /// It is not said who asks.
    Unknown,
    /// It comes from another site's page.
    Foreign,
    /// Nobody may act here.
    ReadOnly,
    /// The form is not one of this session's.
    Mark,
}

impl Denied {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Host => texts::DENIED_HOST,
            Self::Unknown => texts::DENIED_UNKNOWN,
            Self::Foreign => texts::DENIED_FOREIGN,
            Self::ReadOnly => texts::DENIED_READ_ONLY,
            Self::Mark => texts::DENIED_MARK,
        }
    }
}

impl Guard {
    /// Whether anybody is asked who they are.
    pub(crate) fn asks(&self) -> bool {
        self.token.is_some() || self.hook.is_some()
    }

    /// The name by which the site was asked for.
    pub(crate) fn host(&self, parts: &Parts) -> Result<(), Denied> {
        if !self.check_hosts {
            return Ok(());
        }
        let is_known = |authority: &str| {
            let name = without_port(authority).to_ascii_lowercase();
            is_loopback(&name) || self.hosts.contains(&name)
        };
        // Each of them, where a request has more than one: a proxy in between may have gone by another than we do.
        let headers = parts.headers.get_all(HOST).iter();
        let mut names = headers
            .map(|value| value.to_str().ok())
            .chain(parts.uri.authority().map(|authority| Some(authority.as_str())))
            .peekable();
        let known = names.peek().is_some() && names.all(|name| name.is_some_and(is_known));
        known.then_some(()).ok_or(Denied::Host)
    }

    /// Who asks.
    pub(crate) fn visitor(&self, parts: &Parts, now: SystemTime) -> Result<Visitor, Denied> {
        if !self.asks() {
            return Ok(Visitor::default());
        }
        if let Some(visitor) = self.token.as_ref().and_then(|token| self.by_token(token, parts, now)) {
            return Ok(visitor);
        }
        let who = self.hook.as_ref().and_then(|hook| hook(parts)).ok_or(Denied::Unknown)?;
        let known = cookie(parts, SEED).map(str::to_owned);
        let seed = known.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        Ok(Visitor {
            mark: Some(self.key.mark(&format!("{seed} {who}"))),
            who: Some(who),
            cookie: known.is_none().then(|| self.cookie(SEED, &seed, None)),
            by_form: false,
        })
    }

    fn by_token(&self, token: &Token, parts: &Parts, now: SystemTime) -> Option<Visitor> {
        let bearer = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        if let Some((_, given)) = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) {
            return token.is(given.trim()).then(|| Visitor {
                who: Some(texts::WHO_BEARER.to_owned()),
                ..Visitor::default()
            });
        }
        let session = cookie(parts, SESSION).filter(|session| !self.over.has(session))?;
        Some(Visitor {
            who: Some(self.key.session(session, now)?),
            mark: Some(self.key.mark(session)),
            cookie: None,
            by_form: true,
        })
    }

    /// Before something is changed: the form must be a page's of this site, and of this session.
    pub(crate) fn may_act(&self, parts: &Parts, visitor: &Visitor, mark: Option<&str>) -> Result<(), Denied> {
        from_here(parts)?;
        if visitor.who.is_none() {
            return Err(Denied::ReadOnly);
        }
        let Some(expected) = &visitor.mark else { return Ok(()) };
        let given = mark.unwrap_or_default();
        same(expected.as_bytes(), given.as_bytes())
            .then_some(())
            .ok_or(Denied::Mark)
    }

    /// The cookie of a new session, if the token is the right one.
    pub(crate) fn log_in(&self, given: &str, who: &str, now: SystemTime) -> Option<String> {
        let token = self.token.as_ref()?;
        token.is(given).then(|| {
            let session = self.key.begin(who, now);
            self.cookie(SESSION, &session, Some(LASTS.as_secs()))
        })
    }

    /// Ends a session, here and in the browser.
    pub(crate) fn log_out(&self, parts: &Parts, now: SystemTime) -> String {
        if let Some(session) = cookie(parts, SESSION) {
            self.over.end(session, now);
        }
        self.cookie(SESSION, "", Some(0))
    }

    fn cookie(&self, name: &str, value: &str, seconds: Option<u64>) -> String {
        let age = seconds
            .map(|seconds| format!("; Max-Age={seconds}"))
            .unwrap_or_default();
        let secure = if self.secure { "; Secure" } else { "" };
        format!(
            "{name}={value}; Path={}/; HttpOnly; SameSite=Strict{age}{secure}",
            self.base
        )
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("token", &self.token)
            .field("hook", &self.hook.is_some())
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Refuses what a page of another site has sent. Browsers that say where a request comes from are believed; of those that
/// do not, the page's origin is compared. What says neither is no browser of today.
pub(crate) fn from_here(parts: &Parts) -> Result<(), Denied> {
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = header("sec-fetch-site") {
        return (site == "same-origin").then_some(()).ok_or(Denied::Foreign);
    }
    let Some(origin) = header(ORIGIN.as_str()) else {
        return Ok(());
    };
    let origin = origin.split_once("://").map(|(_, authority)| authority);
    let same = origin.is_some_and(|origin| authority(parts).is_some_and(|own| own.eq_ignore_ascii_case(origin)));
    same.then_some(()).ok_or(Denied::Foreign)
}

fn authority(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
}

fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn names_of_this_machine_are_known_with_any_port() {
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(is_loopback(without_port(host)), "{host}");
        }
        for host in [
            "localhost.example.com",
            "10.0.0.1:80",
            "[::2]:80",
            "",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_loopback(without_port(host)), "{host}");
        }
    }

    #[test]
    fn a_request_of_another_sites_page_is_foreign() {
        let host = ("host", "localhost:8080");
        for same in [
            &[host][..],
            &[host, ("origin", "http://localhost:8080")],
            &[host, ("sec-fetch-site", "same-origin"), ("origin", "null")],
        ] {
            assert_eq!(from_here(&parts(same)), Ok(()), "{same:?}");
        }
        for other in [
            &[host, ("origin", "http://localhost:8081")][..],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://evil.example")],
            &[
                host,
                ("sec-fetch-site", "cross-site"),
                ("origin", "http://localhost:8080"),
            ],
            &[host, ("sec-fetch-site", "same-site")],
            &[("origin", "http://localhost:8080")],
        ] {
            assert_eq!(from_here(&parts(other)), Err(Denied::Foreign), "{other:?}");
        }
    }
}
