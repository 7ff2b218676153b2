//! A request goes in, a response comes out.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};

use crate::act::Act;
use crate::builder::SiteBuilder;
use crate::data::{DataError, Source};
use crate::guard::{Denied, Guard, Visitor, from_here};
use crate::page::{self, Here, Look, REFRESH, SECONDS};
use crate::request::{LONGEST_QUERY, Pairs};
use crate::respond::{Answer, Refused, plain, respond};
use crate::route::{self, Lost, Route};
use crate::texts;

/// Bytes of a request's body: the ids of many jobs are the most that a form has.
pub(crate) const MOST: usize = 32 * 1024;

/// The page for one queue. See the crate's documentation for who may do what.
///
/// It may be asked from many threads at a time. Each request waits for the database, so do not ask it on an event loop:
/// the feature `axum` has a router that takes care of that.
pub struct Site {
    source: Box<dyn Source>,
    pub(crate) guard: Guard,
    base: String,
    payloads: bool,
}

impl Site {
    /// Begins with a site that shows everything but payloads to whoever is on this machine, and lets nobody act.
    pub fn builder() -> SiteBuilder {
        SiteBuilder::default()
    }

    pub(crate) fn new(source: Box<dyn Source>, guard: Guard, base: String, payloads: bool) -> Self {
        Self {
            source,
            guard,
            base,
            payloads,
        }
    }

    /// Answers a request. Never panics; waits for the database at the most.
    ///
    /// The request's path begins with what the site is mounted [`under`](SiteBuilder::under).
    #[must_use]
    pub fn handle(&self, request: Request<Vec<u8>>) -> Response<Vec<u8>> {
        let (parts, body) = request.into_parts();
        let answered = catch_unwind(AssertUnwindSafe(|| self.answer(&parts, &body)));
        let mut response = answered.unwrap_or_else(|_| {
            log::error!("the web page panicked at {} {}", parts.method, parts.uri.path());
            self.broken()
        });
        if parts.method == Method::HEAD {
            response.body_mut().clear();
        }
        response
    }

    #[cfg(feature = "axum")]
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// What a request is told whose body is not read to its end.
    #[cfg(feature = "axum")]
    pub(crate) fn too_large(&self) -> Response<Vec<u8>> {
        plain(StatusCode::PAYLOAD_TOO_LARGE, texts::TOO_LARGE)
    }

    /// What a request is told that comes too slowly.
    #[cfg(feature = "axum")]
    pub(crate) fn too_slow(&self) -> Response<Vec<u8>> {
        plain(StatusCode::REQUEST_TIMEOUT, texts::TOO_SLOW)
    }

    /// What a request is told for which there is no answer in time.
    #[cfg(feature = "axum")]
    pub(crate) fn late(&self) -> Response<Vec<u8>> {
        plain(StatusCode::SERVICE_UNAVAILABLE, texts::LATE)
    }

    pub(crate) fn broken(&self) -> Response<Vec<u8>> {
        plain(StatusCode::INTERNAL_SERVER_ERROR, texts::PANICKED)
    }

    fn answer(&self, parts: &Parts, body: &[u8]) -> Response<Vec<u8>> {
        let now = SystemTime::now();
        if let Err(denied) = self.guard.host(parts) {
            return plain(StatusCode::MISDIRECTED_REQUEST, denied.text());
        }
        let mut visitor = Visitor::default();
        let found = self.find(parts).and_then(|route| {
            if route != Route::Style && route != Route::LogIn {
                visitor = self.guard.visitor(parts, now)?;
            }
            self.follow(parts, body, &route, &visitor, now)
        });
        let answer = found.unwrap_or_else(|refused| self.refuse(refused, &visitor, now));
        respond(answer, visitor.cookie)
    }

    fn find(&self, parts: &Parts) -> Result<Route, Refused> {
        let path = route::inside(&self.base, parts.uri.path()).ok_or(Refused::Lost(Lost::Missing))?;
        route::find(&parts.method, path).map_err(Refused::Lost)
    }

    fn follow(
        &self,
        parts: &Parts,
        body: &[u8],
        route: &Route,
        visitor: &Visitor,
        now: SystemTime,
    ) -> Result<Answer, Refused> {
        if parts.method == Method::POST {
            return self.post(parts, body, route, visitor, now);
        }
        let query = Pairs::read(parts.uri.query().unwrap_or_default().as_bytes(), LONGEST_QUERY)?;
        let here = here(parts, &query);
        let look = Look {
            here: Some(&here),
            ..self.look(visitor, now)
        };
        let source = self.source.as_ref();
        let markup = match route {
            // Else the browser would keep the session's cookie to itself.
            Route::Overview if !parts.uri.path().ends_with('/') => {
                return Ok(Answer::To(look.to("/"), None));
            }
            Route::Overview => page::overview::page(&look, source)?,
            Route::Queues => page::queues::page(&look, source)?,
            Route::Jobs => return page::jobs::page(&look, source, &query),
            Route::Ask(deed) => return page::many::page(&self.look(visitor, now), source, *deed, &query),
            Route::Job(id) => page::job::page(&look, source, *id)?.ok_or(Refused::Missing)?,
            Route::Schedules => page::schedules::page(&look, source)?,
            Route::Workers => page::workers::page(&look, source)?,
            Route::Actions => return page::actions::page(&look, source, &query),
            Route::Batches => return page::batches::page(&look, source, &query),
            Route::Workflow(id) => page::workflow::page(&look, source, *id)?.ok_or(Refused::Missing)?,
            Route::Batch(id) => page::batch::page(&look, source, *id)?.ok_or(Refused::Missing)?,
            Route::Style => return Ok(Answer::File("text/css; charset=utf-8", include_str!("style.css"))),
            Route::Do(_) | Route::LogIn | Route::LogOut => return Err(Refused::Lost(Lost::Method("POST"))),
        };
        Ok(Answer::Page(StatusCode::OK, markup))
    }

    fn post(
        &self,
        parts: &Parts,
        body: &[u8],
        route: &Route,
        visitor: &Visitor,
        now: SystemTime,
    ) -> Result<Answer, Refused> {
        if body.len() > MOST {
            return Err(Refused::TooLarge);
        }
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.and_then(|value| value.split(';').next()).map(str::trim);
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")) {
            return Err(Refused::NotAForm);
        }
        let form = Pairs::read(body, MOST)?;
        if *route == Route::LogIn {
            from_here(parts)?;
            let who = form.get("who").unwrap_or(texts::WHO_UNNAMED);
            let cookie = self.guard.log_in(form.exact("token").unwrap_or_default(), who, now);
            return Ok(Answer::To(
                self.look(visitor, now).to("/"),
                Some(cookie.ok_or(Refused::Token)?),
            ));
        }
        self.guard.may_act(parts, visitor, form.exact("mark"))?;
        match route {
            Route::Do(deed) => {
                let act = Act::read(*deed, &form).ok_or(Refused::Unreadable)?;
                let who = visitor.who.as_deref().ok_or(Denied::ReadOnly)?;
                let done = self.source.act(&act, who)?;
                log::info!("{who:?} did by the web page: {act:?}, {done:?}");
                Ok(Answer::To(self.look(visitor, now).to(&act.shown_at(done)), None))
            }
            Route::LogOut => {
                let out = self.guard.log_out(parts, now);
                Ok(Answer::To(self.look(visitor, now).to("/"), Some(out)))
            }
            _ => Err(Refused::Lost(Lost::Method("GET, HEAD"))),
        }
    }

    fn look<'s>(&'s self, visitor: &'s Visitor, now: SystemTime) -> Look<'s> {
        Look {
            base: &self.base,
            visitor,
            payloads: self.payloads,
            now,
            here: None,
        }
    }

    fn refuse(&self, refused: Refused, visitor: &Visitor, now: SystemTime) -> Answer {
        let look = self.look(visitor, now);
        let (status, text) = match refused {
            Refused::Denied(Denied::Unknown) | Refused::Token => {
                let wrong = matches!(refused, Refused::Token);
                let markup = page::log_in::page(&look, self.guard.token.is_some(), wrong);
                return Answer::Page(StatusCode::UNAUTHORIZED, markup);
            }
            Refused::Denied(denied) => (StatusCode::FORBIDDEN, denied.text().to_owned()),
            Refused::Lost(Lost::Method(allowed)) => {
                return Answer::NotAllowed(allowed, page::message(&look, texts::WRONG_METHOD));
            }
            Refused::Lost(Lost::Missing) | Refused::Missing => (StatusCode::NOT_FOUND, texts::NOT_FOUND.to_owned()),
            Refused::Unreadable => (StatusCode::BAD_REQUEST, texts::UNREADABLE.to_owned()),
            Refused::Conflict(text) => (StatusCode::CONFLICT, text),
            Refused::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, texts::TOO_LARGE.to_owned()),
            Refused::NotAForm => (StatusCode::UNSUPPORTED_MEDIA_TYPE, texts::NOT_A_FORM.to_owned()),
            Refused::Data(error) => {
                // Not told to the browser: it may name the database's insides. What is wrong with the tables is our own text.
                let error = self.source.explain(error);
                log::error!("the web page reads nothing: {error}");
                let text = match error {
                    DataError::Schema(error) => error.to_string(),
                    _ => texts::NO_DATABASE.to_owned(),
                };
                (StatusCode::SERVICE_UNAVAILABLE, text)
            }
        };
        Answer::Page(status, page::message(&look, &text))
    }
}

/// The page's own path and query, for a link to it.
fn here(parts: &Parts, query: &Pairs) -> Here {
    let kept = query.without(&[REFRESH, "deed", "done", "of"]);
    let path = parts.uri.path();
    Here {
        path: if kept.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{kept}")
        },
        refreshes: query.get(REFRESH) == Some(SECONDS),
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("under", &self.base)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
