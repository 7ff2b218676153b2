//! What a request leads to, as a response.

use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use maud::Markup;

use crate::act::NotDone;
use crate::data::DataError;
use crate::guard::Denied;
use crate::page::seen;
use crate::request::Unreadable;
use crate::route::Lost;

/// Nothing but this site's own files, and nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// What a request leads to.
pub(crate) enum Answer {
    Page(StatusCode, Markup),
    File(&'static str, &'static str),
    /// A page that says it is not to be had by this method.
    NotAllowed(&'static str, Markup),
    /// To a path of the site, with a cookie.
    To(String, Option<String>),
}

/// Why a request leads to nothing else than a page that says so.
#[derive(Debug)]
pub(crate) enum Refused {
    Denied(Denied),
    Lost(Lost),
    /// There is no such job, batch and the like.
    Missing,
    Unreadable,
    /// It is not as the visitor saw it any more.
    Conflict(String),
    TooLarge,
    /// Of another type than a form's.
    NotAForm,
    /// The token is not the right one.
    Token,
    Data(DataError),
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<NotDone> for Refused {
    fn from(not_done: NotDone) -> Self {
        match not_done {
            NotDone::Missing => Self::Missing,
            NotDone::Conflict(text) => Self::Conflict(text),
            NotDone::Data(error) => Self::Data(error),
        }
    }
}

impl From<DataError> for Refused {
    fn from(error: DataError) -> Self {
        Self::Data(error)
    }
}

impl From<Unreadable> for Refused {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

pub(crate) fn respond(answer: Answer, cookie: Option<String>) -> Response<Vec<u8>> {
    let mut allow = None;
    let (status, kind, body, to, cookie) = match answer {
        Answer::Page(status, markup) => (status, HTML, seen(markup.into_string()), None, cookie),
        Answer::File(kind, text) => (StatusCode::OK, kind, text.to_owned(), None, cookie),
        Answer::NotAllowed(methods, markup) => {
            allow = Some(methods.to_owned());
            (
                StatusCode::METHOD_NOT_ALLOWED,
                HTML,
                seen(markup.into_string()),
                None,
                cookie,
            )
        }
        Answer::To(path, new) => (StatusCode::SEE_OTHER, HTML, String::new(), Some(path), new.or(cookie)),
    };
    let mut response = secure(status, kind, body.into_bytes());
    let headers = response.headers_mut();
    let values = [(LOCATION, to), (SET_COOKIE, cookie), (ALLOW, allow)];
    for (name, value) in values {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(name, value);
        }
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Without the page around it, for who may not see even that.
pub(crate) fn plain(status: StatusCode, text: &str) -> Response<Vec<u8>> {
    secure(status, "text/plain; charset=utf-8", format!("{text}\n").into_bytes())
}

fn secure(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fixed = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: browsers would then hide the page's origin from this site, too, which it checks.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
