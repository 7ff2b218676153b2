//! What somebody sends who means no good.

use std::time::SystemTime;

use http::header::COOKIE;
use leasehold::schedule::{self, Schedule};
use leasehold::{Batch, EnqueueOptions, Job, Schema, Workflow, manage};
use leasehold_web::Site;

use crate::support::*;

/// Texts that would be more than texts if they were let.
const TEXTS: [&str; 8] = [
    SCRIPT,
    IMAGE,
    "' OR 1=1; --",
    "</title><script>alert(3)</script>",
    "&lt;script&gt;",
    "javascript:alert(4)",
    "\u{202e}gpj.exe\u{2066}",
    "\u{1}\u{1b}[31m\u{feff}",
];

/// Every page that there is, for one job, batch and workflow each.
fn paths(job: i64, ended: i64, batch: i64) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/",
        "/queues",
        "/jobs",
        "/schedules",
        "/batches",
        "/workers",
        "/actions",
    ]
    .map(str::to_owned)
    .into();
    paths.extend([
        format!("/jobs/{job}"),
        format!("/jobs/{ended}"),
        format!("/batches/{batch}"),
    ]);
    paths.extend([
        format!("/workflows/{job}"),
        "/jobs/cancel?state=ready&which=all".to_owned(),
    ]);
    paths
}

conformance!(
    fn every_text_of_every_row_stays_a_text(db: &mut Db) {
        let mut conn = prepare(db);
        let schema = Schema::default();
        let batch = Batch::new("batch").add_all(&[Note { n: 1 }], &EnqueueOptions::new());
        let batch = batch.enqueue(&mut conn).unwrap().id;
        let workflow = Workflow::new();
        let first = workflow.add(&Note { n: 2 });
        workflow.add(&Note { n: 3 }).after(first).named("first");
        let job = workflow.enqueue(&mut conn).unwrap().id_of(first);
        let ended = Note { n: 4 }.enqueue(&mut conn).unwrap().id();
        manage::discard(&mut conn, &schema, ended, "ops", "x").unwrap();
        let running = Step::now(1, Then::Commit).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        schedule::put(&mut conn, &schema, &Schedule::new("s", "0 * * * *").job(&Note { n: 5 })).unwrap();
        let at = format!("(SELECT created_at FROM leasehold.jobs WHERE id = {job})");
        db.sql(&format!(
            "INSERT INTO leasehold.job_errors (job_id, generation, attempt, at, cause, error) VALUES ({job}, 1, 1, {at}, 'error', 'x');
             INSERT INTO leasehold.steps (job_id, name, position, generation, result, at) VALUES ({job}, 'x', 0, 1, '1', {at});
             INSERT INTO leasehold.job_progress (job_id, generation, done, total, text, at) \
                SELECT id, generation, 1, 2, 'x', created_at FROM leasehold.jobs WHERE id = {running};
             INSERT INTO leasehold.workers (id, host, pid, threads, queues, kinds, started_at, heartbeat_at) \
                SELECT worker, 'x', 1, 1, '[\"x\"]', '[]', created_at, created_at FROM leasehold.jobs WHERE id = {running}"
        ));
        let site = open(db, Site::builder().token(TOKEN).show_payloads());
        for text in TEXTS {
            let quoted = format!("'{}'", text.replace('\'', "''"));
            let json = format!("'{}'", serde_json::to_string(&[text]).unwrap().replace('\'', "''"));
            db.sql(&format!(
                "UPDATE leasehold.jobs SET queue = {quoted}, kind = {quoted}, payload = {json}, idempotency_key = {quoted} || id;
                 UPDATE leasehold.finished_jobs SET queue = {quoted}, kind = {quoted}, payload = {json}, reason = {quoted};
                 UPDATE leasehold.job_errors SET error = {quoted}; UPDATE leasehold.steps SET name = {quoted}, result = {json};
                 UPDATE leasehold.job_progress SET text = {quoted}; UPDATE leasehold.batches SET name = {quoted};
                 UPDATE leasehold.job_waits SET name = {quoted}; UPDATE leasehold.workers SET host = {quoted};
                 UPDATE leasehold.actions SET \"by\" = {quoted}, reason = {quoted};
                 UPDATE leasehold.schedules SET name = {quoted}, queue = {quoted}, kind = {quoted}, payload = {json}"
            ));
            manage::pause(&mut conn, &schema, manage::Scope::Queue(text), text, text).unwrap();
            let cookie = post(&site, "/login", &[("token", TOKEN), ("who", text)]).cookie();
            for path in paths(job, ended, batch).iter().chain([&format!("/jobs/{running}")]) {
                let request = request("GET", path).header(COOKIE, &cookie);
                let page = send(&site, request.body(Vec::new()).unwrap());
                assert_eq!(page.status, 200, "{path} {text:?}: {}", page.text);
                page.is_tame();
                page.hides("<title></title>");
                let odd = |c: char| "\u{202e}\u{2066}\u{1}\u{1b}\u{feff}".contains(c);
                let seen = page
                    .text
                    .split('<')
                    .filter_map(|tag| tag.split_once('>'))
                    .any(|(_, text)| text.contains(odd));
                assert!(!seen, "{path}: {text:?} is not seen as what it is");
            }
        }
        // Whoever resumes what was paused sends the name as it is.
        let cookie = post(&site, "/login", &[("token", TOKEN)]).cookie();
        let request = request("GET", "/queues").header(COOKIE, &cookie);
        let queues = send(&site, request.body(Vec::new()).unwrap());
        queues.shows(&format!("name=\"name\" value=\"{}\"", TEXTS[6]));
        queues.shows("[U+202E]gpj.exe[U+2066]");
    }
);

conformance!(
    fn queries_that_are_none_are_refused_whole(db: &mut Db) {
        prepare(db);
        let site = reader(db);
        let long = "a".repeat(60_000);
        for query in [
            "queue=%00",
            "queue=%ff",
            "%c0%ae=1",
            "state=x",
            "state=ready&state=completed",
            "queue=a&queue=b",
            "age=x",
            "batch=x",
            "batch=99999999999999999999",
            "from=x",
            "from=1.2.3",
            "from=-1.5",
            "from=9223372036854775807.1",
            &format!("error={long}"),
            &"a&".repeat(5000),
        ] {
            assert_eq!(get(&site, &format!("/jobs?{query}")).status, 400, "{:.60}", query);
        }
        for query in [
            "%",
            "&&&",
            "=",
            "from=-9223372036854775808",
            "from=0.9223372036854775807",
            "from=253402300799000000.-1",
            "batch=-1",
            "error=%25%5F%5C%27",
            "queue=%2F..%2F",
            "kind=%E2%80%AE",
            "refresh=1e9",
            "unique=&key=",
        ] {
            page(&site, &format!("/jobs?{query}")).is_tame();
        }
        page(&site, "/jobs?refresh=%22%3E%3Cimg").hides("http-equiv=\"refresh\"");
        page(&site, "/jobs?refresh=5").shows("http-equiv=\"refresh\" content=\"5\"");
        assert_eq!(get(&site, "/batches?before=x").status, 400);
        for path in [
            "/jobs?id=x",
            "/jobs?id=99999999999999999999",
            "/batches?id=%3Cscript%3E",
        ] {
            assert_eq!(get(&site, path).status, 404, "{path}");
        }
        let negative = get(&site, "/jobs?id=-9223372036854775808");
        assert_eq!(get(&site, negative.location()).status, 404);
    }
);

conformance!(
    fn paths_have_one_way_to_be_written(db: &mut Db) {
        prepare(db);
        let site = reader(db);
        for path in [
            "//jobs",
            "/jobs//1",
            "/jobs/1/",
            "/jobs%2F1",
            "/jobs/%2e%2e/queues",
            "/jobs/../queues",
            "/..%2f..%2fetc/passwd",
            "/%2e%2e/style.css",
            "/jobs/%00",
            "/jobs/%ff",
            "/jobs/+1",
            "/jobs/1e3",
            "/jobs/0x1",
            "/jobs/%EF%BC%91",
            "/jobs/9223372036854775808",
            "/jobs/-1",
            "/workflows/-1",
            "/batches/-1",
            "/batches/1%20OR%201=1",
            "/STYLE.CSS",
            "/style.css/x",
            "//evil.example/",
        ] {
            assert_eq!(get(&site, path).status, 404, "{path}");
        }
        page(&site, "/jobs/").shows("<h1>Jobs</h1>");
    }
);

conformance!(
    fn numbers_at_their_ends_are_shown(db: &mut Db) {
        let mut conn = prepare(db);
        let schema = Schema::default();
        let batch = Batch::new("batch").add_all(&[Note { n: 1 }], &EnqueueOptions::new());
        let batch = batch.enqueue(&mut conn).unwrap().id;
        let job = Note { n: 2 }.enqueue(&mut conn).unwrap().id();
        let ended = Note { n: 3 }.enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &schema, ended, manage::Cancel::Hard, "ops", "x").unwrap();
        schedule::put(&mut conn, &schema, &Schedule::new("s", "0 * * * *").job(&Note { n: 4 })).unwrap();
        let running = Step::now(1, Then::Commit).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        db.sql(
            "INSERT INTO leasehold.job_progress (job_id, generation, done, total, text, at) \
                SELECT id, 9223372036854775806, 9223372036854775807, 0, 'x', created_at FROM leasehold.jobs WHERE worker IS NOT NULL;
             UPDATE leasehold.jobs SET priority = -32768, attempt = 2147483647, max_attempts = 1, \
                generation = 9223372036854775806, lease_ms = 31536000000;
             UPDATE leasehold.finished_jobs SET priority = 32767, attempt = 0, generation = 9223372036854775806",
        );
        // The first day of the years that have four digits, and the last but one.
        for at in ["-62135596800000", "253402171200000"] {
            let now = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_millis();
            let distance = at.parse::<i64>().unwrap() - i64::try_from(now).unwrap();
            for (table, column) in [
                ("jobs", "created_at"),
                ("jobs", "run_at"),
                ("finished_jobs", "finished_at"),
                ("finished_jobs", "created_at"),
                ("batches", "created_at"),
                ("schedules", "next_at"),
            ] {
                db.set_time(&format!("leasehold.{table}"), column, distance, "1 = 1");
            }
            db.set_time("leasehold.jobs", "lease_until", distance, "worker IS NOT NULL");
            let site = reader(db);
            for path in paths(job, ended, batch)
                .iter()
                .filter(|path| !path.starts_with("/jobs/cancel"))
            {
                page(&site, path).hides("NaN");
            }
            page(&site, &format!("/jobs/{running}"));
            let first = page(&site, "/jobs?state=cancelled");
            first.shows(if at.starts_with('-') {
                "0001-01-01T"
            } else {
                "9999-12-30T"
            });
        }
    }
);
