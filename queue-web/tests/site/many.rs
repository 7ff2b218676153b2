//! What is done to many jobs at once.

use http::header::COOKIE;
use leasehold::inspect::{self, State};
use leasehold::manage::{self, Cancel};
use leasehold::{Backend, EnqueueOptions, Job, Schema};

use crate::support::*;

/// Notes that wait.
fn notes<C: Backend>(conn: &mut C, count: i64) -> Vec<i64> {
    let notes: Vec<Note> = (0..count).map(|n| Note { n }).collect();
    let enqueued = Note::enqueue_all(&notes, conn, &EnqueueOptions::new()).unwrap();
    enqueued.iter().map(leasehold::Enqueued::id).collect()
}

fn in_state<C: Backend>(conn: &mut C, ids: &[i64], state: State) -> usize {
    let schema = Schema::default();
    let of = |id: &&i64| inspect::job(conn, &schema, **id).unwrap().unwrap().state == state;
    ids.iter().filter(of).count()
}

conformance!(
    fn all_that_were_found_are_acted_on_once_their_number_was_seen(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = notes(&mut conn, 12);
        let visit = Visit::begin(db);
        let list = visit.look("/jobs?state=ready&kind=note");
        list.shows("formaction=\"/jobs/cancel\"");
        list.hides("formaction=\"/jobs/requeue\"");
        let asked = visit.look("/jobs/cancel?state=ready&kind=note&which=all");
        asked.shows("Cancel 12 jobs?");
        asked.shows("2 more are not shown.");
        assert_eq!(
            in_state(&mut conn, &ids, State::Ready),
            12,
            "a question changes nothing"
        );

        // One moves on and one comes in meanwhile: neither is touched.
        manage::discard(&mut conn, &Schema::default(), ids[0], "ops", "elsewhere").unwrap();
        let newcomer = notes(&mut conn, 1);
        let fields = [
            ("state", "ready"),
            ("kind", "note"),
            ("ids", &asked.value("ids")),
            ("reason", "too many"),
        ];
        let done = visit.done("/jobs/cancel", &fields);
        done.shows("Cancel: 11 of 12. The others had moved on meanwhile");
        done.shows("<p class=\"total\">1 job</p>");
        assert_eq!(in_state(&mut conn, &ids, State::Cancelled), 11);
        assert_eq!(in_state(&mut conn, &newcomer, State::Ready), 1);
        let reason = db.texts("SELECT DISTINCT reason FROM leasehold.finished_jobs WHERE state = 'cancelled'");
        assert_eq!(reason, [Some("too many".to_owned())]);

        let asked = visit.look("/jobs/requeue?state=cancelled&which=all");
        asked.shows("Retry 11 jobs?");
        visit.done("/jobs/requeue", &[("state", "cancelled"), ("ids", &asked.value("ids"))]);
        assert_eq!(in_state(&mut conn, &ids, State::Ready), 11);
    }
);

conformance!(
    fn those_that_were_selected_are_acted_on_alone(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = notes(&mut conn, 5);
        let visit = Visit::begin(db);
        visit
            .look("/jobs?state=ready")
            .shows(&format!("name=\"job\" value=\"{}\"", ids[3]));
        let query = format!("state=ready&which=job&job={}&job={}", ids[3], ids[1]);
        let asked = visit.look(&format!("/jobs/discard?{query}"));
        asked.shows("Discard 2 jobs?");
        visit.done("/jobs/discard", &[("state", "ready"), ("ids", &asked.value("ids"))]);
        assert_eq!(in_state(&mut conn, &[ids[1], ids[3]], State::Discarded), 2);
        assert_eq!(in_state(&mut conn, &ids, State::Ready), 3);
        visit
            .look("/jobs/discard?state=ready&which=job")
            .shows("No job is selected");
    }
);

conformance!(
    fn more_than_can_be_done_at_once_are_done_in_turns_and_that_is_said(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = notes(&mut conn, 620);
        let visit = Visit::begin(db);
        let mut turns = 0;
        loop {
            // A turn ends after a while, too.
            let left = in_state(&mut conn, &ids, State::Ready);
            if left == 0 {
                break;
            }
            turns += 1;
            let asked = visit.look("/jobs/cancel?state=ready&which=all");
            asked.shows(&format!("Cancel {} job", left.min(500)));
            let is_part = asked
                .text
                .contains(&format!("The first of {left}. Repeat it for the rest."));
            assert_eq!(is_part, left > 500);
            visit.done("/jobs/cancel", &[("state", "ready"), ("ids", &asked.value("ids"))]);
        }
        assert!(turns > 1);
        assert_eq!(in_state(&mut conn, &ids, State::Cancelled), 620);
    }
);

conformance!(
    fn what_was_not_asked_for_rightly_is_done_to_none(db: &mut Db) {
        let mut conn = prepare(db);
        let ids = notes(&mut conn, 3);
        let ended = notes(&mut conn, 1)[0];
        manage::cancel(&mut conn, &Schema::default(), ended, Cancel::Hard, "ops", "x").unwrap();
        let visit = Visit::begin(db);
        for path in [
            "/jobs/cancel",
            "/jobs/cancel?which=all",
            "/jobs/cancel?state=ready",
            "/jobs/cancel?state=bogus&which=all",
            "/jobs/cancel?state=discarded&which=all",
            "/jobs/requeue?state=ready&which=all",
            "/jobs/discard?state=completed&which=all",
            "/jobs/cancel?state=ready&which=job&job=x",
            &format!("/jobs/cancel?state=ready&which=job{}", "&job=1".repeat(501)),
        ] {
            assert_eq!(visit.look(path).status, 400, "{path}");
        }
        let too_many = vec!["1"; 501].join(",");
        for list in ["", "x", "1,,2", "1;2", "9223372036854775808", &too_many] {
            let fields = [("state", "ready"), ("ids", list)];
            assert_eq!(visit.act("/jobs/cancel", &fields).status, 400, "{list}");
        }
        let list = ids[0].to_string();
        assert_eq!(post(&visit.site, "/jobs/cancel", &[("ids", &list)]).status, 401);
        let (cookie, body) = (&visit.cookie, encoded(&[("ids", &list)]));
        let unmarked = form("/jobs/cancel").header(COOKIE, cookie).body(body).unwrap();
        assert_eq!(send(&visit.site, unmarked).status, 403);
        let site = reader(db);
        assert_eq!(get(&site, "/jobs/cancel?state=ready&which=all").status, 403);
        assert_eq!(in_state(&mut conn, &ids, State::Ready), 3);
        // A link can say nothing but numbers.
        let told = visit.look("/jobs?deed=%3Cscript%3E&done=1&of=1");
        told.hides("role=\"status\"");
        visit.look("/jobs?deed=requeue&done=-1&of=x").hides("role=\"status\"");
    }
);

conformance!(
    fn a_scheduled_job_is_run_now_unless_it_has_changed(db: &mut Db) {
        let mut conn = prepare(db);
        let later = EnqueueOptions::new().delay(std::time::Duration::from_secs(3600));
        let id = Note { n: 1 }.enqueue_with(&mut conn, &later).unwrap().id();
        let visit = Visit::begin(db);
        let path = format!("/jobs/{id}/run");
        let page = visit.look(&format!("/jobs/{id}"));
        page.shows(&format!("action=\"{path}\""));
        page.shows("to run at");
        let generation = page.value("generation");
        assert_eq!(visit.act(&path, &[("generation", "7")]).status, 409);
        for odd in ["", "x", "-"] {
            assert_eq!(visit.act(&path, &[("generation", odd)]).status, 400, "{odd}");
        }
        let done = visit.done(&path, &[("generation", &generation)]);
        done.shows("due: a worker takes it");
        done.hides(&format!("action=\"{path}\""));
        assert_eq!(
            visit.act(&path, &[("generation", &generation)]).status,
            409,
            "sent once more"
        );
    }
);
