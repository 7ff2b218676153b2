//! What is done by a form, and what a form must carry.

use http::header::{AUTHORIZATION, COOKIE};
use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel, Scope};
use leasehold::{Backend, Job, Schema};
use leasehold_web::Site;

use crate::support::*;

#[track_caller]
fn state<C: Backend>(conn: &mut C, id: i64) -> State {
    inspect::job(conn, &Schema::default(), id).unwrap().unwrap().state
}

conformance!(
    fn a_job_is_cancelled_requeued_and_discarded(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let visit = Visit::begin(db);
        let path = |deed: &str| format!("/jobs/{id}/{deed}");

        visit.look(&format!("/jobs/{id}")).shows(&path("cancel"));
        let page = visit.done(&path("cancel"), &[("reason", "not needed")]);
        page.shows("not needed");
        assert_eq!(state(&mut conn, id), State::Cancelled);
        let again = visit.act(&path("cancel"), &[]);
        assert_eq!(again.status, 409);
        again.shows("It has ended already.");

        page.shows(&path("requeue"));
        visit.done(&path("requeue"), &[]);
        assert_eq!(state(&mut conn, id), State::Ready);
        assert_eq!(visit.act(&path("requeue"), &[]).status, 409);

        visit.done(&path("discard"), &[("reason", SCRIPT)]).is_tame();
        assert_eq!(state(&mut conn, id), State::Discarded);
        assert_eq!(visit.act("/jobs/999999/cancel", &[]).status, 404);
        assert_eq!(visit.act("/jobs/999999/requeue", &[]).status, 404);
        assert_eq!(visit.act("/jobs/x/requeue", &[]).status, 404);
    }
);

conformance!(
    fn a_running_job_is_asked_to_stop_or_fenced_out(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let (_, fence) = claim_and_die::<Note, _>(&mut conn, true);
        let visit = Visit::begin(db);

        visit
            .done(&format!("/jobs/{id}/cancel"), &[("how", "soft")])
            .shows("Asked to stop");
        assert_eq!(state(&mut conn, id), State::Running);
        visit.done(&format!("/jobs/{id}/cancel"), &[("how", "hard")]);
        assert_eq!(state(&mut conn, id), State::Cancelled);
        assert!(!finish(&mut conn, &fence), "the worker's completion is refused");
    }
);

conformance!(
    fn a_queue_a_kind_and_everything_are_paused_and_resumed(db: &mut Db) {
        let mut conn = prepare(db);
        let visit = Visit::begin(db);
        let scopes = [("queue", IMAGE), ("kind", "a kind"), ("all", "")];
        for (scope, name) in scopes {
            let fields = [("scope", scope), ("name", name), ("reason", SCRIPT)];
            let page = visit.done("/pause", &fields);
            page.shows("Ada");
            page.is_tame();
        }
        let pauses = manage::pauses(&mut conn, &Schema::default()).unwrap();
        assert_eq!(pauses.len(), 3);
        assert!(pauses.iter().all(|pause| pause.by == "Ada" && pause.reason == SCRIPT));
        assert!(pauses.iter().any(|pause| pause.scope() == Scope::Queue(IMAGE)));
        for (scope, name) in scopes {
            visit.done("/resume", &[("scope", scope), ("name", name)]);
        }
        assert!(manage::pauses(&mut conn, &Schema::default()).unwrap().is_empty());
        assert_eq!(visit.act("/resume", &[("scope", "all")]).status, 404);
        for fields in [&[][..], &[("scope", "x"), ("name", "a")], &[("scope", "queue")]] {
            assert_eq!(visit.act("/pause", fields).status, 400, "{fields:?}");
        }
    }
);

conformance!(
    fn each_queue_of_the_list_is_paused_by_its_own_button(db: &mut Db) {
        let mut conn = prepare(db);
        Note { n: 1 }.enqueue(&mut conn).unwrap();
        db.sql("UPDATE leasehold.jobs SET queue = ' a/b \"%'");
        let visit = Visit::begin(db);
        let queues = visit.look("/queues");
        let (_, row) = queues.text.split_once("<tbody>").unwrap();
        assert!(
            row.contains("action=\"/pause\"") && row.contains("name=\"name\" value=\" a/b &quot;%\""),
            "{row}"
        );
        let fields = [("scope", "queue"), ("name", " a/b \"%")];
        let paused = visit.done("/pause", &fields);
        let (_, row) = paused.text.split_once("<tbody>").unwrap();
        assert!(
            row.split("</tbody>").next().unwrap().contains("action=\"/resume\""),
            "{row}"
        );
        visit.done("/resume", &fields).shows("Nothing is paused.");
    }
);

conformance!(
    fn without_a_token_nothing_can_be_done(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let site = reader(db);
        page(&site, &format!("/jobs/{id}")).hides("method=\"post\"");
        for path in [&format!("/jobs/{id}/cancel"), "/pause", "/resume", "/schedules/pause"] {
            let refused = post(&site, path, &[("scope", "all"), ("name", "a")]);
            assert_eq!(refused.status, 403, "{path}");
            refused.shows("read only");
        }
        assert_eq!(post(&site, "/login", &[("token", "")]).status, 401);
        let asking = open(db, Site::builder().token(TOKEN));
        assert_eq!(post(&asking, &format!("/jobs/{id}/cancel"), &[]).status, 401);
        assert_eq!(state(&mut conn, id), State::Ready);
    }
);

conformance!(
    fn a_form_without_its_mark_or_from_elsewhere_does_nothing(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let (visit, other) = (Visit::begin(db), Visit::begin(db));
        let path = format!("/jobs/{id}/cancel");
        let send_form = |mark: &str, headers: &[(&str, &str)]| {
            let mut request = form(&path).header(COOKIE, &visit.cookie);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            send(&visit.site, request.body(encoded(&[("mark", mark)])).unwrap())
                .status
                .as_u16()
        };
        assert_ne!(visit.mark, other.mark);
        for mark in ["", "x", &other.mark, &visit.mark[1..]] {
            assert_eq!(send_form(mark, &[]), 403, "{mark}");
        }
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(send_form(&visit.mark, &[foreign]), 403, "{foreign:?}");
        }
        assert_eq!(state(&mut conn, id), State::Ready);
        // By a link or an image nothing is done either.
        assert_eq!(visit.look(&path).status, 405);
        assert_eq!(send_form(&visit.mark, &[("origin", "http://localhost:7070")]), 303);
        assert_eq!(state(&mut conn, id), State::Cancelled);
    }
);

conformance!(
    fn a_program_acts_by_its_bearer_token(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let site = open(db, Site::builder().token(TOKEN));
        let cancel = |headers: &[(&str, &str)]| {
            let mut request = form(&format!("/jobs/{id}/cancel")).header(AUTHORIZATION, format!("Bearer {TOKEN}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            send(&site, request.body(Vec::new()).unwrap()).status.as_u16()
        };
        assert_eq!(cancel(&[("origin", "http://evil.example")]), 403);
        assert_eq!(cancel(&[]), 303);
        assert_eq!(state(&mut conn, id), State::Cancelled);
        let reason = inspect::job(&mut conn, &Schema::default(), id)
            .unwrap()
            .unwrap()
            .reason
            .unwrap();
        assert_eq!(reason, "no reason given");
    }
);

conformance!(
    fn whom_the_program_names_acts_by_a_marked_form(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Hard, "ops", "once").unwrap();
        let hook = Site::builder().authenticate(|parts| Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned()));
        let site = open(db, hook);
        let job = format!("/jobs/{id}");
        let look = request("GET", &job).header("x-user", "Grace");
        let page = send(&site, look.body(Vec::new()).unwrap());
        let (seed, mark) = (page.cookie(), page.mark());
        let requeue = |user: &str, seed: &str, mark: &str| {
            let request = form(&format!("{job}/requeue"))
                .header("x-user", user)
                .header(COOKIE, seed);
            send(&site, request.body(encoded(&[("mark", mark)])).unwrap())
                .status
                .as_u16()
        };
        assert_eq!(requeue("Grace", "", &mark), 403);
        assert_eq!(requeue("Ada", &seed, &mark), 403);
        assert_eq!(requeue("Grace", &seed, &mark), 303);
        assert_eq!(state(&mut conn, id), State::Ready);
    }
);
