//! The list of jobs: what is found, how many there are, and page by page.

use std::time::Duration;

use leasehold::manage::{self, Cancel};
use leasehold::{EnqueueOptions, Job, Schema, Workflow};
use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "keyed", unique(by = "text"))]
struct Keyed {
    text: String,
}

/// The ids of a list's rows.
fn rows(page: &Page) -> Vec<i64> {
    let rows = page.text.split("<th scope=\"row\"><a href=\"/jobs/").skip(1);
    rows.map(|row| row.split('"').next().unwrap().parse().unwrap())
        .collect()
}

fn next(page: &Page) -> Option<String> {
    let (_, rest) = page.text.split_once("rel=\"next\" href=\"")?;
    Some(rest.split('"').next().unwrap().replace("&amp;", "&"))
}

conformance!(
    fn each_state_that_people_tell_apart_is_a_list_of_its_own(db: &mut Db) {
        let mut conn = prepare(db);
        let schema = Schema::default();
        let due = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let later = EnqueueOptions::new().delay(Duration::from_secs(3600));
        let scheduled = Note { n: 2 }.enqueue_with(&mut conn, &later).unwrap().id();
        let held = Step::now(1, Then::Commit).enqueue(&mut conn).unwrap().id();
        claim_and_die::<Step, _>(&mut conn, true);
        let workflow = Workflow::new();
        let first = workflow.add(&Note { n: 3 });
        let then = workflow.add(&Note { n: 4 }).after(first);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let (first, blocked) = (ids.id_of(first), ids.id_of(then));
        let ended = [5, 6].map(|n| Note { n }.enqueue(&mut conn).unwrap().id());
        manage::cancel(&mut conn, &schema, ended[0], Cancel::Hard, "ops", "a").unwrap();
        manage::discard(&mut conn, &schema, ended[1], "ops", "b").unwrap();
        let site = reader(db);
        for (state, ids) in [
            ("ready", vec![first, due]),
            ("scheduled", vec![scheduled]),
            ("blocked", vec![blocked]),
            ("running", vec![held]),
            ("completed", vec![]),
            ("cancelled", vec![ended[0]]),
            ("discarded", vec![ended[1]]),
        ] {
            let list = page(&site, &format!("/jobs?state={state}"));
            assert_eq!(rows(&list), ids, "{state}");
            list.shows(&format!("<option value=\"{state}\" selected>"));
            let total = match ids.len() {
                0 => "No job matches.".to_owned(),
                1 => "<p class=\"total\">1 job</p>".to_owned(),
                some => format!("<p class=\"total\">{some} jobs</p>"),
            };
            list.shows(&total);
        }
        assert_eq!(rows(&page(&site, "/jobs")).len(), 7);
    }
);

conformance!(
    fn a_job_is_found_by_its_keys(db: &mut Db) {
        let mut conn = prepare(db);
        let job = Keyed {
            text: "a/b %&".to_owned(),
        };
        let keyed = job.enqueue(&mut conn).unwrap().id();
        let options = EnqueueOptions::new().idempotency_key("order <42>");
        let idempotent = Note { n: 1 }.enqueue_with(&mut conn, &options).unwrap().id();
        let site = reader(db);
        let unique: String = form_urlencoded::byte_serialize(job.unique_key().unwrap().as_bytes()).collect();
        for (query, id) in [
            ("key=order+%3C42%3E".to_owned(), idempotent),
            ("unique=text%3Da%2Fb+%25%26&kind=keyed".to_owned(), keyed),
            (format!("unique={unique}&kind=keyed"), keyed),
            (format!("unique={unique}&kind=keyed&queue=default"), keyed),
        ] {
            let found = get(&site, &format!("/jobs?{query}"));
            assert_eq!(
                found.header("location"),
                Some(format!("/jobs/{id}").as_str()),
                "{query}"
            );
        }
        for query in [
            "key=order",
            &format!("unique={unique}"),
            "unique=a&kind=keyed",
            "unique=a&kind=%3Cscript%3E",
        ] {
            let missed = page(&site, &format!("/jobs?{query}"));
            missed.shows("No job has this key.");
            missed.is_tame();
        }
    }
);

conformance!(
    fn a_list_of_very_many_jobs_says_more_than_and_is_turned_to_its_end(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..1100).map(|n| Note { n }).collect();
        Note::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        // Every third is scheduled: a page of them takes more than one look.
        db.sql("UPDATE leasehold.jobs SET scheduled = (id % 3 = 0)");
        let site = reader(db);
        page(&site, "/jobs").shows("More than 1\u{202f}000 jobs");
        let scheduled = usize::try_from(db.integer("SELECT count(*) FROM leasehold.jobs WHERE id % 3 = 0")).unwrap();
        let (mut path, mut seen) = ("/jobs?state=scheduled".to_owned(), Vec::new());
        page(&site, &path).shows(&format!("<p class=\"total\">{scheduled} jobs</p>"));
        loop {
            let page = page(&site, &path);
            assert!(page.text.len() < 100_000);
            seen.extend(rows(&page));
            let Some(further) = next(&page) else { break };
            path = further;
        }
        assert!(
            seen.is_sorted_by(|one, next| one > next),
            "the newest first, none twice"
        );
        assert_eq!(seen.len(), scheduled);
    }
);

conformance!(
    fn a_search_that_finds_nothing_among_those_it_looked_at_goes_on_further_back(db: &mut Db) {
        let mut conn = prepare(db);
        let first = Step::now(1, Then::Commit).enqueue(&mut conn).unwrap().id();
        let jobs: Vec<Note> = (0..10_100).map(|n| Note { n }).collect();
        Note::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        let site = reader(db);
        let empty = page(&site, "/jobs?kind=step");
        empty.shows("0 jobs match, of those looked at: 10\u{202f}000");
        empty.shows("Look at older jobs");
        let further = page(&site, &next(&empty).unwrap());
        assert_eq!(rows(&further), [first]);
        assert_eq!(next(&further), None);
        further.shows(">First page<");
    }
);

conformance!(
    fn a_name_with_odd_characters_is_kept_by_every_link(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..60).map(|n| Note { n }).collect();
        Note::enqueue_all(&jobs, &mut conn, &EnqueueOptions::new()).unwrap();
        for (name, sent) in [
            (" a/b", "+a%2Fb"),
            ("100% & more?", "100%25+%26+more%3F"),
            ("a+b#c;", "a%2Bb%23c%3B"),
            ("..", ".."),
            ("\u{202e}cba", "%E2%80%AEcba"),
        ] {
            db.sql(&format!("UPDATE leasehold.jobs SET queue = '{name}'"));
            let site = reader(db);
            page(&site, "/queues").shows(&format!("href=\"/jobs?queue={sent}\""));
            let first = page(&site, &format!("/jobs?queue={sent}"));
            let second = page(&site, &next(&first).unwrap());
            assert_eq!((rows(&first).len(), rows(&second).len()), (50, 10), "{name}");
        }
        let seen = page(&reader(db), "/queues");
        seen.shows("[U+202E]cba");
    }
);
