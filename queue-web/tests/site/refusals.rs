//! Requests that lead to nothing, and say so.

use http::header::ALLOW;
use leasehold_web::{BuildError, Site};

use crate::support::*;

conformance!(
    fn what_is_not_there_is_not_found(db: &mut Db) {
        prepare(db);
        let site = reader(db);
        let huge = format!("/jobs/{}0", i64::MAX);
        for path in [
            "/jobs/1",
            "/jobs/x",
            "/jobs/-1",
            "/jobs/01",
            &huge,
            "/nothing",
            "/jobs/1/2/3",
            "/%ff%00",
            "/../etc",
        ] {
            assert_eq!(get(&site, path).status, 404, "{path}");
        }
    }
);

conformance!(
    fn other_methods_are_not_allowed(db: &mut Db) {
        prepare(db);
        let site = reader(db);
        for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "POST", "PATCH"] {
            let page = send(&site, request(method, "/jobs").body(Vec::new()).unwrap());
            assert_eq!(page.status, 405, "{method}");
            assert_eq!(page.header(ALLOW), Some("GET, HEAD"));
        }
        let login = get(&site, "/login");
        assert_eq!((login.status.as_u16(), login.header(ALLOW)), (405, Some("POST")));
        let head = send(&site, request("HEAD", "/jobs").body(Vec::new()).unwrap());
        assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    }
);

conformance!(
    fn a_foreign_name_is_refused(db: &mut Db) {
        prepare(db);
        let ask = |site: &Site, host: Option<&str>| {
            let mut request = http::Request::get("/");
            if let Some(host) = host {
                request = request.header("host", host);
            }
            send(site, request.body(Vec::new()).unwrap()).status.as_u16()
        };
        let site = reader(db);
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7070", "[::1]:7070"] {
            assert_eq!(ask(&site, Some(host)), 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "[",
            ":80",
        ] {
            assert_eq!(ask(&site, Some(host)), 421, "{host}");
        }
        assert_eq!(ask(&site, None), 421);
        let two = request("GET", "/").header("host", "evil.example").body(Vec::new());
        assert_eq!(send(&site, two.unwrap()).status, 421);
        let whole = request("GET", "http://evil.example/").body(Vec::new());
        assert_eq!(send(&site, whole.unwrap()).status, 421);

        let named = open(db, Site::builder().host("Queue.example.com"));
        assert_eq!(ask(&named, Some("queue.example.com:443")), 200);
        assert_eq!(ask(&named, Some("evil.example")), 421);
        // Whoever must say who they are is asked by any name: the cookie of one name is not sent to another.
        let asking = open(db, Site::builder().token(TOKEN));
        assert_eq!(ask(&asking, Some("evil.example")), 401);
    }
);

conformance!(
    fn a_database_that_is_away_is_said_without_its_insides(db: &mut Db) {
        prepare(db);
        db.sql("DROP TABLE leasehold.pauses");
        let page = get(&reader(db), "/");
        assert_eq!(page.status, 503);
        page.hides("pauses");
    }
);

conformance!(
    fn what_cannot_make_a_site_is_told(db: &mut Db) {
        let build = |builder: leasehold_web::SiteBuilder| builder.open::<Connection>(&db.url()).unwrap_err();
        assert!(matches!(
            build(Site::builder().token("short")),
            BuildError::ShortToken { bytes: 5 }
        ));
        assert!(matches!(
            build(Site::builder().token("")),
            BuildError::ShortToken { bytes: 0 }
        ));
        for path in ["queue", "/a b", "/{x}", "//evil.example", "/a\"b"] {
            assert!(
                matches!(build(Site::builder().under(path)), BuildError::Path { .. }),
                "{path}"
            );
        }
    }
);

conformance!(
    fn a_mounted_site_answers_under_its_path_only(db: &mut Db) {
        prepare(db);
        let site = open(db, Site::builder().under("/queue/"));
        assert_eq!(get(&site, "/queue").location(), "/queue/");
        page(&site, "/queue/").shows("href=\"/queue/jobs\"");
        page(&site, "/queue/style.css").shows("prefers-color-scheme: dark");
        for path in ["/", "/jobs", "/queues", "/queuejobs"] {
            assert_eq!(get(&site, path).status, 404, "{path}");
        }
    }
);
