//! Tokens, sessions and marks where they do not belong, and forms that are too large.

use http::header::{ACCEPT, AUTHORIZATION, COOKIE};
use leasehold::inspect::{self, State};
use leasehold::{Job, Schema};
use leasehold_web::Site;

use crate::support::*;

conformance!(
    fn a_token_in_an_address_opens_nothing(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let visit = Visit::begin(db);
        for path in [format!("/?token={TOKEN}"), format!("/jobs?bearer={TOKEN}")] {
            assert_eq!(get(&visit.site, &path).status, 401, "{path}");
        }
        let path = format!("/jobs/{id}/cancel");
        let mark = &visit.mark;
        let send_to = |path: &str, body: Vec<u8>| {
            let request = form(path).header(COOKIE, &visit.cookie);
            send(&visit.site, request.body(body).unwrap()).status.as_u16()
        };
        assert_eq!(
            send_to(&format!("{path}?mark={mark}"), Vec::new()),
            403,
            "a mark in an address"
        );
        let login = format!("/login?token={TOKEN}");
        assert_eq!(post(&visit.site, &login, &[]).status, 401);
        let twice = format!("mark=x&mark={mark}");
        assert_eq!(send_to(&path, twice.into_bytes()), 400, "two marks");
        let both = [format!("mark={mark}&reason=%ff").into_bytes(), b"mark=%ff".to_vec()];
        for body in both {
            assert_eq!(send_to(&path, body), 400, "no text");
        }
        assert_eq!(
            inspect::job(&mut conn, &Schema::default(), id).unwrap().unwrap().state,
            State::Ready
        );
    }
);

conformance!(
    fn a_mark_of_another_session_or_token_is_worth_nothing(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let old = Visit::begin(db);
        assert_eq!(old.look("/").status, 200);
        assert_eq!(old.act("/logout", &[]).status, 303);
        assert_eq!(old.look("/").status, 401, "a copy of the cookie ends, too");
        let new = Visit::begin(db);
        let path = format!("/jobs/{id}/cancel");
        let act = |cookie: &str, mark: &str| {
            let request = form(&path).header(COOKIE, cookie).body(encoded(&[("mark", mark)]));
            send(&new.site, request.unwrap()).status.as_u16()
        };
        assert_eq!(act(&new.cookie, &old.mark), 403, "replayed in the next session");
        let other = open(db, Site::builder().token("another token of this site"));
        let request = form(&path).header(COOKIE, &new.cookie);
        assert_eq!(
            send(&other, request.body(encoded(&[("mark", &new.mark)])).unwrap()).status,
            401
        );
        // Two cookies of the name: the browser's own is told first, and one that somebody else has set does not help.
        let both = format!("leasehold_session=x; {}", new.cookie);
        assert_eq!(act(&both, &new.mark), 401);
        assert_eq!(act(&new.cookie, &new.mark), 303);
        let odd = form(&path)
            .header(COOKIE, &new.cookie)
            .header(AUTHORIZATION, "Bearer x")
            .body(encoded(&[("mark", &new.mark)]))
            .unwrap();
        assert_eq!(
            send(&new.site, odd).status,
            401,
            "a wrong bearer token beside a session"
        );
    }
);

conformance!(
    fn texts_of_a_megabyte_are_stored_by_no_form(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let visit = Visit::begin(db);
        let long = "a".repeat(1 << 20);
        for (path, field) in [
            (format!("/jobs/{id}/cancel"), "reason"),
            ("/pause".to_owned(), "name"),
            ("/schedules/pause".to_owned(), "name"),
            ("/jobs/cancel".to_owned(), "ids"),
        ] {
            let fields = [("scope", "queue"), (field, long.as_str())];
            assert_eq!(visit.act(&path, &fields).status, 413, "{path}");
        }
        let login = post(&visit.site, "/login", &[("token", TOKEN), ("who", &"é".repeat(5000))]);
        assert!(login.cookie().len() < 400);
        let odd = request("GET", "/")
            .header(ACCEPT, "a".repeat(1 << 20))
            .header(COOKIE, "b".repeat(1 << 20));
        assert_eq!(send(&visit.site, odd.body(Vec::new()).unwrap()).status, 401);
    }
);
