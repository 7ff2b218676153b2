//! Overview, queues, jobs and one job.

use leasehold::manage::{self, Cancel, Scope};
use leasehold::{EnqueueOptions, Job, Schema};

use crate::support::*;

conformance!(
    fn the_overview_counts_jobs_by_state(db: &mut Db) {
        let mut conn = prepare(db);
        for n in 0..3 {
            Note { n }.enqueue(&mut conn).unwrap();
        }
        let later = EnqueueOptions::new().delay(std::time::Duration::from_secs(3600));
        let ended = Step::now(5, Then::Commit).enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &Schema::default(), ended, Cancel::Hard, "ops", "not wanted").unwrap();
        Note { n: 4 }.enqueue_with(&mut conn, &later).unwrap();
        manage::pause(&mut conn, &Schema::default(), Scope::Kind("note"), "Ada", "no paper").unwrap();
        let site = reader(db);

        let overview = page(&site, "/");
        overview.shows("<strong>3</strong> <span>ready</span>");
        overview.shows("<strong>1</strong> <span>scheduled</span>");
        overview.shows("<strong>0</strong> <span>running</span>");
        overview.shows("<strong>1</strong> <span>cancelled</span> <small>in the last hour</small>");
        overview.shows("Z: 1 cancelled</title>");
        overview.shows("no paper");
        overview.shows("read only");

        let queues = page(&site, "/queues");
        queues.shows("/jobs?queue=default&amp;state=ready");
        queues.shows("Ada");
    }
);

conformance!(
    fn failures_of_late_are_grouped_by_what_went_wrong(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let another = Step::now(5, Then::Commit).enqueue(&mut conn).unwrap().id();
        for attempt in 1..=20 {
            db.sql(&format!(
                "INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error) \
                 SELECT id, {attempt}, {attempt}, created_at, 'error', 'order {attempt} is not there <b>' FROM leasehold.jobs \
                 WHERE id = {id}"
            ));
        }
        db.sql(&format!(
            "INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error) \
             SELECT id, 1, 1, created_at, 'panic', 'oh' FROM leasehold.jobs WHERE id = {another}"
        ));
        db.set_time("leasehold.job_errors", "at", -60_000, &format!("job_id = {another}"));
        let site = reader(db);
        let overview = page(&site, "/");
        overview.shows("<td class=\"number\">20</td>");
        overview.shows("<td class=\"number\">1</td>");
        assert_eq!(overview.text.matches("is not there &lt;b&gt;").count(), 1);
        let link = "href=\"/jobs?kind=note&amp;error=";
        let found = overview.text.split(link).nth(1).unwrap().split('"').next().unwrap();
        let list = page(&site, &format!("/jobs?kind=note&error={found}"));
        list.shows(&format!("href=\"/jobs/{id}\""));
        overview.shows("error=oh\"");
    }
);

conformance!(
    fn jobs_are_found_by_what_is_asked_for(db: &mut Db) {
        let mut conn = prepare(db);
        let note = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let step = Step::now(2, Then::Commit).enqueue(&mut conn).unwrap().id();
        manage::cancel(
            &mut conn,
            &Schema::default(),
            step,
            Cancel::Hard,
            "ops",
            "not wanted any more",
        )
        .unwrap();
        let site = reader(db);
        let link = |id: i64| format!("href=\"/jobs/{id}\"");

        let all = page(&site, "/jobs");
        all.shows(&link(note));
        all.shows(&link(step));
        let searched = [
            ("/jobs?state=cancelled", step, note),
            ("/jobs?kind=note", note, step),
            ("/jobs?error=not+wanted", step, note),
            ("/jobs?state=ready&kind=note", note, step),
        ];
        for (path, found, other) in searched {
            let page = page(&site, path);
            page.shows(&link(found));
            page.hides(&link(other));
        }
        page(&site, "/jobs?queue=none").shows("No job matches.");
        page(&site, "/jobs?age=1h").shows("No job matches.");
        assert_eq!(
            get(&site, &format!("/jobs?id={note}")).location(),
            format!("/jobs/{note}")
        );
    }
);

conformance!(
    fn payloads_are_hidden_unless_they_are_allowed(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 123_454_321 }.enqueue(&mut conn).unwrap().id();
        let path = format!("/jobs/{id}");
        page(&reader(db), &path).hides("123454321");
        let open = open(db, leasehold_web::Site::builder().show_payloads());
        page(&open, &path).shows("{&quot;n&quot;:123454321}");
    }
);

conformance!(
    fn names_and_texts_are_no_markup(db: &mut Db) {
        let mut conn = prepare(db);
        let schema = Schema::default();
        let failed = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let ended = Note { n: 2 }.enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &schema, ended, Cancel::Hard, "ops", SCRIPT).unwrap();
        for table in ["jobs", "finished_jobs"] {
            let image = IMAGE.replace('\'', "''");
            db.sql(&format!(
                "UPDATE leasehold.{table} SET kind = '{SCRIPT}', queue = '{image}', idempotency_key = '{image}' || id, \
                 payload = '{{\"a\": \"{SCRIPT}\"}}'"
            ));
        }
        manage::pause(&mut conn, &schema, Scope::Queue(IMAGE), SCRIPT, IMAGE).unwrap();
        manage::pause(&mut conn, &schema, Scope::Kind(SCRIPT), IMAGE, SCRIPT).unwrap();
        db.sql(&format!(
            "INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error) \
             SELECT {failed}, 1, 1, created_at, 'error', '{SCRIPT}' FROM leasehold.jobs WHERE id = {failed}"
        ));

        let site = open(db, leasehold_web::Site::builder().show_payloads());
        let escaped = "&lt;script&gt;alert(1)&lt;/script&gt;";
        for path in [
            "/",
            "/queues",
            "/jobs",
            &format!("/jobs/{failed}"),
            &format!("/jobs/{ended}"),
        ] {
            let page = page(&site, path);
            page.is_tame();
            page.shows(escaped);
        }
        let query = "queue=%22%3E%3Cimg&kind=%22%3E%3Cimg&error=%3Cscript%3E&key=%22%3E%3Cimg&unique=%22%3E%3Cimg&x=%3Cscript%3E";
        page(&site, &format!("/jobs?{query}&from=1")).is_tame();
    }
);
