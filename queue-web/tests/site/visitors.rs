//! Who may look: by a token, a session, or the program's own word.

use http::header::{AUTHORIZATION, COOKIE, SET_COOKIE};
use leasehold_web::Site;

use crate::support::*;

conformance!(
    fn without_the_token_nothing_is_shown(db: &mut Db) {
        prepare(db);
        let site = open(db, Site::builder().token(TOKEN));
        for path in ["/", "/jobs", "/jobs/1", "/queues"] {
            let page = get(&site, path);
            assert_eq!(page.status, 401, "{path}");
            page.shows("type=\"password\"");
            page.hides("<strong>");
        }
        assert_eq!(get(&site, "/style.css").status, 200);
        for wrong in [
            "Bearer wrong",
            "Bearer",
            &format!("Basic {TOKEN}"),
            &format!("Bearer {}", &TOKEN[1..]),
        ] {
            let request = request("GET", "/").header(AUTHORIZATION, wrong);
            assert_eq!(send(&site, request.body(Vec::new()).unwrap()).status, 401, "{wrong}");
        }
        let request = request("GET", "/").header(AUTHORIZATION, format!("Bearer {TOKEN}"));
        send(&site, request.body(Vec::new()).unwrap()).shows("bearer token");
    }
);

conformance!(
    fn a_session_begins_with_the_token_and_ends_with_a_form(db: &mut Db) {
        prepare(db);
        let site = open(db, Site::builder().token(TOKEN));
        let wrong = post(&site, "/login", &[("token", "wrong"), ("who", "Ada")]);
        assert_eq!(wrong.status, 401);
        assert_eq!(wrong.header(SET_COOKIE), None);
        assert_eq!(post(&site, "/login", &[]).status, 401);

        let entered = post(&site, "/login", &[("token", TOKEN), ("who", SCRIPT)]);
        assert_eq!((entered.status.as_u16(), entered.location()), (303, "/"));
        let set = entered.header(SET_COOKIE).unwrap();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/;"] {
            assert!(set.contains(part), "{set}");
        }
        let cookie = entered.cookie();
        let with = |cookie: &str| {
            send(
                &site,
                request("GET", "/").header(COOKIE, cookie).body(Vec::new()).unwrap(),
            )
        };
        let overview = with(&cookie);
        assert_eq!(overview.status, 200);
        overview.shows("&lt;script&gt;");
        overview.is_tame();
        assert_eq!(with(&cookie[..cookie.len() - 1]).status, 401);

        let out = form("/logout").header(COOKIE, &cookie);
        let unmarked = send(&site, out.body(Vec::new()).unwrap());
        assert_eq!(unmarked.status, 403);
        let out = form("/logout").header(COOKIE, &cookie);
        let out = send(&site, out.body(encoded(&[("mark", &overview.mark())])).unwrap());
        assert!(out.header(SET_COOKIE).unwrap().contains("Max-Age=0"));
    }
);

conformance!(
    fn a_login_from_another_sites_page_is_refused(db: &mut Db) {
        prepare(db);
        let site = open(db, Site::builder().token(TOKEN).https_only());
        let login = |name: &str, value: &str| {
            let request = form("/login").header(name, value);
            send(&site, request.body(encoded(&[("token", TOKEN)])).unwrap())
        };
        assert_eq!(login("origin", "http://evil.example").status, 403);
        assert_eq!(login("sec-fetch-site", "cross-site").status, 403);
        let entered = login("origin", "http://localhost:7070");
        assert_eq!(entered.status, 303);
        assert!(entered.header(SET_COOKIE).unwrap().contains("; Secure"));
    }
);

conformance!(
    fn the_programs_own_function_says_who_asks(db: &mut Db) {
        prepare(db);
        let site = Site::builder().authenticate(|parts| {
            let user = parts.headers.get("x-user")?.to_str().ok()?;
            assert_ne!(user, "panic");
            Some(user.to_owned())
        });
        let site = open(db, site);
        assert_eq!(get(&site, "/").status, 401);
        let ask = |user: &str| {
            send(
                &site,
                request("GET", "/").header("x-user", user).body(Vec::new()).unwrap(),
            )
        };
        let page = ask("Grace");
        page.shows("Grace");
        assert!(page.cookie().starts_with("leasehold_seed="));
        assert_eq!(ask("panic").status, 500);
    }
);

conformance!(
    fn a_large_body_and_another_type_than_a_forms_are_refused(db: &mut Db) {
        prepare(db);
        let site = open(db, Site::builder().token(TOKEN));
        let session = post(&site, "/login", &[("token", TOKEN)]).cookie();
        let out = |kind: &str, body: Vec<u8>| {
            let request = request("POST", "/logout").header(COOKIE, &session);
            send(&site, request.header("content-type", kind).body(body).unwrap())
                .status
                .as_u16()
        };
        let kind = "application/x-www-form-urlencoded";
        assert_eq!(out(kind, vec![b'a'; 1 << 20]), 413);
        assert_eq!(out(kind, b"mark=%ff".to_vec()), 400);
        for kind in ["application/json", "text/plain", "multipart/form-data; boundary=x"] {
            assert_eq!(out(kind, b"mark=1".to_vec()), 415, "{kind}");
        }
        assert_eq!(
            out("Application/X-WWW-Form-URLEncoded; charset=utf-8", b"mark=1".to_vec()),
            403
        );
    }
);
