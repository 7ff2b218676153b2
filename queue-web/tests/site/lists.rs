//! Overview, queues, jobs and one job.

use leasehold::manage::{self, Cancel, Scope};
use leasehold::{EnqueueOptions, Job, Schema, Worker};

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
            ("/jobs?state=scheduled&kind=note", note, step),
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
    fn jobs_are_turned_page_by_page(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..120).map(|n| Note { n }).collect();
        Note::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let site = reader(db);

        let (mut path, mut seen) = ("/jobs?kind=note".to_owned(), Vec::new());
        for turn in 0.. {
            let page = page(&site, &path);
            let rows = page.text.split("<th scope=\"row\"><a href=\"/jobs/").skip(1);
            seen.extend(rows.map(|row| row.split('"').next().unwrap().parse::<i64>().unwrap()));
            let Some((before, _)) = page.text.split_once("\">Next page") else {
                assert_eq!(turn, 2);
                break;
            };
            path = before.rsplit('"').next().unwrap().replace("&amp;", "&");
        }
        let mut once = seen.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!((seen.len(), once.len()), (120, 120));
    }
);

conformance!(
    fn a_job_is_shown_with_its_whole_life(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::now(1, Then::FailUntil(2)).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).register::<Step>();
        worker.run_until_empty().unwrap();
        drop(remote);
        let job = page(&reader(db), &format!("/jobs/{id}"));
        for part in ["enqueued", "attempt failed (error)", "completed", "2/5"] {
            job.shows(part);
        }
        let place = |text: &str| job.text.find(text).unwrap();
        assert!(place("enqueued<") < place("attempt failed") && place("attempt failed") < place("completed, "));
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
        let query = "state=%3Cscript%3E&queue=%22%3E%3Cimg&kind=%22%3E%3Cimg&error=%3Cscript%3E&age=%3Cscript%3E&batch=%22%3E%3Cimg";
        page(&site, &format!("/jobs?{query}&after=1")).is_tame();
    }
);
