//! Schedules and batches.

use http::header::COOKIE;
use leasehold::schedule::{self, Schedule};
use leasehold::{Batch, EnqueueOptions, Schema, Workflow};
use leasehold_web::Site;

use crate::support::*;

conformance!(
    fn a_schedule_is_shown_paused_and_resumed(db: &mut Db) {
        let mut conn = prepare(db);
        let schema = Schema::default();
        let hourly = Schedule::new(IMAGE, "0 * * * *")
            .zone("Europe/Berlin")
            .job(&Note { n: 123_454_321 });
        schedule::put(&mut conn, &schema, &hourly).unwrap();
        let site = open(db, Site::builder().token(TOKEN));
        let cookie = post(&site, "/login", &[("token", TOKEN)]).cookie();
        let look = || {
            send(
                &site,
                request("GET", "/schedules")
                    .header(COOKIE, &cookie)
                    .body(Vec::new())
                    .unwrap(),
            )
        };
        let shown = look();
        for part in [
            "0 * * * *",
            "Europe/Berlin",
            "note",
            "&quot;&gt;&lt;img",
            "action=\"/schedules/pause\"",
        ] {
            shown.shows(part);
        }
        shown.is_tame();
        shown.hides("123454321");
        assert_eq!(shown.text.matches(":00:00Z").count(), 3);

        let act = |path: &str, name: &str| {
            let request = form(path).header(COOKIE, &cookie);
            let fields = encoded(&[("mark", &shown.mark()), ("name", name)]);
            send(&site, request.body(fields).unwrap()).status.as_u16()
        };
        let paused = |conn: &mut Connection| schedule::find(conn, &schema, IMAGE).unwrap().unwrap().paused;
        assert_eq!(act("/schedules/pause", IMAGE), 303);
        assert!(paused(&mut conn));
        look().shows("action=\"/schedules/resume\"");
        assert_eq!(act("/schedules/resume", IMAGE), 303);
        assert!(!paused(&mut conn));
        assert_eq!(act("/schedules/pause", "another"), 404);
        page(&reader(db), "/schedules").hides("method=\"post\"");
    }
);

conformance!(
    fn a_batch_is_shown_with_how_its_jobs_are(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..3).map(|n| Note { n }).collect();
        let batch = Batch::new(SCRIPT).add_all(&jobs, &EnqueueOptions::new());
        let id = batch.enqueue(&mut conn).unwrap().id;
        let site = reader(db);
        let shown = page(&site, &format!("/batches/{id}"));
        shown.is_tame();
        shown.shows("&lt;script&gt;alert(1)&lt;/script&gt;");
        shown.shows("<strong>3</strong> <span>ready</span>");
        shown.shows("not finished");
        shown.shows(&format!("/jobs?batch={id}&amp;state=ready"));
        let all = page(&site, "/batches");
        all.shows(&format!("href=\"/batches/{id}\""));
        all.is_tame();
        page(&site, &format!("/batches?before={id}")).shows("There are no batches.");
        assert_eq!(get(&site, "/batches/999").status, 404);
        assert_eq!(
            get(&site, &format!("/batches?id={id}")).location(),
            format!("/batches/{id}")
        );
        let listed = page(&site, &format!("/jobs?batch={id}"));
        assert_eq!(listed.text.matches("<th scope=\"row\">").count(), 3);
    }
);

conformance!(
    fn a_batch_is_cancelled_as_a_whole(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..3).map(|n| Note { n }).collect();
        let batch = Batch::new("newsletter").add_all(&jobs, &EnqueueOptions::new());
        let id = batch.enqueue(&mut conn).unwrap().id;
        let visit = Visit::begin(db);
        let path = format!("/batches/{id}/cancel");
        visit
            .look(&format!("/batches/{id}"))
            .shows(&format!("action=\"{path}\""));
        page(&reader(db), &format!("/batches/{id}")).hides("method=\"post\"");
        let cancelled = visit.done(&path, &[("how", "hard"), ("reason", SCRIPT)]);
        cancelled.shows("<strong>3</strong> <span>cancelled</span>");
        cancelled.hides(&path);
        assert_eq!(visit.act(&path, &[]).status, 409, "it has finished");
        assert_eq!(visit.act("/batches/999/cancel", &[]).status, 404);
        let reasons = db.texts("SELECT DISTINCT reason FROM leasehold.finished_jobs");
        assert_eq!(reasons, [Some(SCRIPT.to_owned())]);
    }
);

conformance!(
    fn a_workflow_is_drawn_with_what_waits_for_what(db: &mut Db) {
        let mut conn = prepare(db);
        let workflow = Workflow::new();
        let first = workflow.add(&Note { n: 1 }).named(SCRIPT);
        let parts = [2, 3].map(|n| workflow.add(&Note { n }).after(first));
        let last = workflow.add(&Note { n: 4 }).after_all(parts).run_anyway();
        let ids = workflow.enqueue(&mut conn).unwrap();
        db.sql(&format!("UPDATE leasehold.jobs SET kind = '{SCRIPT}'"));
        let site = reader(db);
        let shown = page(&site, &format!("/workflows/{}", ids.id_of(last)));
        shown.is_tame();
        assert_eq!(shown.text.matches("class=\"node ").count(), 4);
        assert_eq!(shown.text.matches("<path").count(), 4);
        assert_eq!(shown.text.matches("class=\"anyway\"").count(), 2);
        shown.shows(&format!(
            "<title>{} → {}</title>",
            ids.id_of(first),
            ids.id_of(parts[0])
        ));
        assert_eq!(get(&site, "/workflows/999999").status, 404);
    }
);
