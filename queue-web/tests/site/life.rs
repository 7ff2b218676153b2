//! One job's life as a timeline.

use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema, Worker, Workflow};

use crate::support::*;

/// In this order.
#[track_caller]
fn tells(page: &Page, parts: &[&str]) {
    let (_, line) = page.text.split_once("<ol class=\"timeline\">").expect("a timeline");
    let mut rest = line.split("</ol>").next().unwrap();
    for part in parts {
        rest = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("no {part:?} in its place in {line}"))
            .1;
    }
}

conformance!(
    fn attempts_are_told_until_the_commit(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::now(1, Then::FailUntil(3)).enqueue(&mut conn).unwrap().id();
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).register::<Step>();
        worker.run_until_empty().unwrap();
        let job = page(&reader(db), &format!("/jobs/{id}"));
        let parts = [
            "enqueued",
            "Attempt 1, Generation 1: failed (error)",
            "Attempt 2, Generation 2: failed (error)",
            "completed, Attempt 3, Generation 3",
        ];
        tells(&job, &parts);
    }
);

conformance!(
    fn the_attempt_that_runs_is_told_with_its_worker_and_lease(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Step::now(1, Then::Commit).enqueue(&mut conn).unwrap().id();
        let (claimed, _) = claim_and_die::<Step, _>(&mut conn, true);
        let site = reader(db);
        let worker = db.text("SELECT worker FROM leasehold.jobs").unwrap();
        let running = page(&site, &format!("/jobs/{id}"));
        let attempt = format!(
            "Attempt {}, Generation {}: running, worker",
            claimed.attempt, claimed.generation
        );
        tells(
            &running,
            &[
                "enqueued",
                &attempt,
                &worker[..8],
                "Its lease was given or renewed",
                "it holds for",
            ],
        );
        running.shows(&format!("href=\"/workers#{worker}\""));
        db.set_time("leasehold.jobs", "lease_until", -1000, "state = 'running'");
        manage::cancel(&mut conn, &Schema::default(), id, Cancel::Soft, "ops", "enough").unwrap();
        let expired = page(&site, &format!("/jobs/{id}"));
        let asked = "request cancel, by <strong>ops</strong>";
        tells(&expired, &["enqueued", asked, "enough", "Its lease has expired"]);
        expired.shows("Asked to stop");
    }
);

conformance!(
    fn what_people_did_is_told_with_who_and_why(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let visit = Visit::begin(db);
        visit.done(&format!("/jobs/{id}/cancel"), &[("reason", "too early")]);
        visit.done(&format!("/jobs/{id}/requeue"), &[]);
        let told = visit.done(&format!("/jobs/{id}/discard"), &[("reason", SCRIPT)]);
        let by = "by <strong>Ada</strong>, Generation";
        let parts = [
            "enqueued",
            &format!("cancel, {by} 0 → 1"),
            "too early",
            &format!("requeue, {by} 1 → 2"),
            &format!("discard, {by} 2 → 3"),
            "&lt;script&gt;",
            "discarded, Generation 3",
        ];
        tells(&told, &parts);
    }
);

conformance!(
    fn all_that_people_did_is_listed_by_whom(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..60).map(|n| Note { n }).collect();
        Note::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let visit = Visit::begin(db);
        let asked = visit.look("/jobs/cancel?state=ready&which=all");
        visit.done("/jobs/cancel", &[("state", "ready"), ("ids", &asked.value("ids"))]);
        let queue = manage::Scope::Queue("a <b>");
        manage::pause(&mut conn, &Schema::default(), queue, "Grace", "the disk is full").unwrap();
        let first = visit.look("/actions");
        first.shows("the disk is full");
        first.shows("<small>Queue</small> a &lt;b&gt;");
        assert_eq!(first.text.matches("<td>cancel</td>").count(), 49);
        first.shows("rel=\"next\"");
        let of_one = visit.look("/actions?by=Ada");
        assert_eq!(of_one.text.matches("<td>cancel</td>").count(), 50);
        of_one.hides("the disk is full");
        let next = of_one
            .text
            .split("rel=\"next\" href=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let last = visit.look(&next.replace("&amp;", "&"));
        assert_eq!(last.text.matches("<td>cancel</td>").count(), 10);
        visit.look("/actions?by=nobody").shows("Nothing has been done by hand");
        assert_eq!(visit.look("/actions?before=x").status, 400);
    }
);

conformance!(
    fn what_a_job_waits_for_ends_its_line(db: &mut Db) {
        let mut conn = prepare(db);
        let workflow = Workflow::new();
        let first = workflow.add(&Note { n: 1 });
        let then = workflow.add(&Note { n: 2 }).after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let later = EnqueueOptions::new().delay(std::time::Duration::from_secs(3600));
        let scheduled = Note { n: 3 }.enqueue_with(&mut conn, &later).unwrap().id();
        let site = reader(db);
        for (id, waits) in [
            (ids.id_of(first), "due: a worker takes it when it can"),
            (ids.id_of(then), "kept by a limit, or by jobs that have to end first"),
            (scheduled, "to run at"),
        ] {
            tells(&page(&site, &format!("/jobs/{id}")), &["enqueued", ">now<", waits]);
        }
    }
);

conformance!(
    fn a_long_life_and_large_texts_make_no_large_page(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        // The worst of each: as many errors as are kept, each as long as may be, of what takes most room on a page.
        let quotes = "\"".repeat(8 * 1024);
        let at = "(SELECT created_at FROM leasehold.jobs)";
        for attempt in 1..=100 {
            db.sql(&format!(
                "INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error) \
                 VALUES ({id}, {attempt}, {attempt}, {at}, 'error', '{quotes}')"
            ));
        }
        let row = |n: usize| format!("({id}, 'step {n}', {n}, 1, '\"{}\"', {at})", "x".repeat(1000));
        for chunk in (0..1000).collect::<Vec<_>>().chunks(100) {
            let rows: Vec<String> = chunk.iter().map(|n| row(*n)).collect();
            db.sql(&format!(
                "INSERT INTO leasehold.steps (job_id, name, position, generation, result, at) VALUES {}",
                rows.join(", ")
            ));
        }
        let payload = format!("\"{}\"", "&".repeat(1 << 20));
        db.sql(&format!("UPDATE leasehold.jobs SET payload = '{payload}'"));
        let path = format!("/jobs/{id}");
        let hidden = page(&reader(db), &path);
        assert!(hidden.text.len() < 1_000_000, "{}", hidden.text.len());
        hidden.shows("851 more are not shown.");
        hidden.shows("more bytes");
        let shown = page(&open(db, leasehold_web::Site::builder().show_payloads()), &path);
        assert!(shown.text.len() < 1_500_000, "{}", shown.text.len());
        shown.shows("800 more are not shown.");
        manage::cancel(
            &mut conn,
            &Schema::default(),
            id,
            Cancel::Hard,
            "ops",
            &"\u{1}".repeat(1 << 20),
        )
        .unwrap();
        let list = page(&reader(db), "/jobs?state=cancelled");
        assert!(list.text.len() < 20_000, "{}", list.text.len());
    }
);
