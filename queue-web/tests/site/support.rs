//! Requests, and what came back.

use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{Request, Response, StatusCode};
pub(crate) use leasehold_tests::jobs::SOON;
pub(crate) use leasehold_tests::jobs::{Note, Step, Then, app, claim_and_die, finish, prepare};
pub(crate) use leasehold_tests::{TestDb, conformance, eventually};
use leasehold_web::{Site, SiteBuilder};

/// What would run or load something if it were not escaped.
pub(crate) const SCRIPT: &str = "<script>alert(1)</script>";
pub(crate) const IMAGE: &str = "\"><img src=x onerror=alert(2)>'";

/// At least sixteen bytes.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn open<D: TestDb>(db: &D, builder: SiteBuilder) -> Site {
    builder.open::<D::Connection>(&db.url()).unwrap()
}

/// A site that nobody may act on.
pub(crate) fn reader<D: TestDb>(db: &D) -> Site {
    open(db, Site::builder())
}

pub(crate) fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:7070")
}

/// What a page shows.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    response: Response<Vec<u8>>,
}

impl Page {
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        Some(self.response.headers().get(name)?.to_str().unwrap())
    }

    pub(crate) fn location(&self) -> &str {
        self.header(LOCATION).expect("a way to go on")
    }

    /// The cookie that was set, as a browser sends it back.
    pub(crate) fn cookie(&self) -> String {
        let set = self.header(SET_COOKIE).expect("a cookie");
        set.split(';').next().unwrap().to_owned()
    }

    /// The mark in its first form.
    pub(crate) fn mark(&self) -> String {
        self.value("mark")
    }

    /// The value of a hidden field.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> String {
        let field = format!("name=\"{name}\" value=\"");
        let rest = self.text.split_once(&field).expect("a form with that field").1;
        rest.split_once('"').unwrap().0.to_owned()
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        assert!(self.text.contains(text), "no {text:?} in {}", self.text);
    }

    #[track_caller]
    pub(crate) fn hides(&self, text: &str) {
        assert!(!self.text.contains(text), "{text:?} is in {}", self.text);
    }

    /// Nothing that a name or a text says is markup.
    #[track_caller]
    pub(crate) fn is_tame(&self) {
        for wild in ["<script", "<img", "onerror=alert(2)>"] {
            self.hides(wild);
        }
    }
}

pub(crate) fn send(site: &Site, request: Request<Vec<u8>>) -> Page {
    let response = site.handle(request);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("script"), "{policy}");
    Page {
        status: response.status(),
        text: String::from_utf8(response.body().clone()).unwrap(),
        response,
    }
}

pub(crate) fn get(site: &Site, path: &str) -> Page {
    send(site, request("GET", path).body(Vec::new()).unwrap())
}

/// As [`get`], which must answer with a page.
#[track_caller]
pub(crate) fn page(site: &Site, path: &str) -> Page {
    let page = get(site, path);
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    page
}

/// A form as a browser sends it.
pub(crate) fn form(path: &str) -> http::request::Builder {
    request("POST", path).header(CONTENT_TYPE, "application/x-www-form-urlencoded")
}

pub(crate) fn encoded(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(fields);
    text.finish().into_bytes()
}

pub(crate) fn post(site: &Site, path: &str, fields: &[(&str, &str)]) -> Page {
    send(site, form(path).body(encoded(fields)).unwrap())
}

/// A site with a visitor's session.
pub(crate) struct Visit {
    pub(crate) site: Site,
    pub(crate) cookie: String,
    pub(crate) mark: String,
}

impl Visit {
    pub(crate) fn begin<D: TestDb>(db: &D) -> Self {
        let site = open(db, Site::builder().token(TOKEN));
        let cookie = post(&site, "/login", &[("token", TOKEN), ("who", "Ada")]).cookie();
        let visit = Self {
            site,
            cookie,
            mark: String::new(),
        };
        let mark = visit.look("/queues").mark();
        Self { mark, ..visit }
    }

    pub(crate) fn look(&self, path: &str) -> Page {
        let request = request("GET", path).header(COOKIE, &self.cookie);
        send(&self.site, request.body(Vec::new()).unwrap())
    }

    /// Sends a form with the mark.
    pub(crate) fn act(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let mut all = vec![("mark", self.mark.as_str())];
        all.extend(fields);
        let request = form(path)
            .header(COOKIE, &self.cookie)
            .header("sec-fetch-site", "same-origin");
        send(&self.site, request.body(encoded(&all)).unwrap())
    }

    /// As [`Visit::act`], which leads to the page that shows it.
    #[track_caller]
    pub(crate) fn done(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let done = self.act(path, fields);
        assert_eq!(done.status, 303, "{path}: {}", done.text);
        self.look(done.location())
    }
}
