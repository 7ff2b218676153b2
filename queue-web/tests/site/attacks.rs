//! What somebody sends who means no good.

use http::header::{ACCEPT, AUTHORIZATION, COOKIE};
use leasehold::inspect::{self, State};
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
    let mut paths: Vec<String> = ["/", "/queues", "/jobs", "/schedules", "/batches", "/workers"]
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
        manage::discard(&mut conn, &schema, ended, "x").unwrap();
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
        assert_eq!(old.act("/logout", &[]).status, 303);
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
