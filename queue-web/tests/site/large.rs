//! Large batches and workflows: a page of them ends somewhere, and says what it leaves out.

use std::time::{Duration, Instant};

use leasehold::{Batch, EnqueueOptions, Schema, Workflow, batch};

use crate::support::*;

/// A page of a megabyte at the most, well before somebody would give up. On an idle machine it takes some ten milliseconds.
#[track_caller]
fn small(site: &leasehold_web::Site, path: &str) -> Page {
    let since = Instant::now();
    let page = page(site, path);
    assert!(page.text.len() < 1_000_000, "{path}: {} bytes", page.text.len());
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{path}: {:?}",
        since.elapsed()
    );
    page
}

conformance!(
    fn a_batch_of_very_many_jobs_is_a_small_page(db: &mut Db) {
        let mut conn = prepare(db);
        let jobs: Vec<Note> = (0..10_000).map(|n| Note { n }).collect();
        let batch = Batch::new("many").add_all(&jobs, &EnqueueOptions::new());
        let id = batch.enqueue(&mut conn).unwrap().id;
        let site = reader(db);
        small(&site, &format!("/batches/{id}")).shows("<strong>10\u{202f}000+</strong> <span>ready</span>");
        // In a list of many each is counted less far.
        small(&site, "/batches").shows("+</td>");
        small(&site, &format!("/jobs?batch={id}")).shows("More than 1\u{202f}000 jobs");
        batch::cancel(
            &mut conn,
            &Schema::default(),
            id,
            leasehold::manage::Cancel::Hard,
            "ops",
            "over",
        )
        .unwrap();
        small(&site, &format!("/jobs?batch={id}&state=cancelled")).shows("More than 1\u{202f}000 jobs");
    }
);

conformance!(
    fn a_workflow_of_very_many_jobs_is_drawn_in_part_and_says_so(db: &mut Db) {
        let mut conn = prepare(db);
        let workflow = Workflow::new();
        let first = workflow.add(&Note { n: 0 });
        let middle: Vec<_> = (1..499).map(|n| workflow.add(&Note { n }).after(first)).collect();
        let last = workflow.add(&Note { n: 499 }).after_all(middle.iter().copied());
        let ids = workflow.enqueue(&mut conn).unwrap();
        let site = reader(db);
        for id in [ids.id_of(first), ids.id_of(middle[300]), ids.id_of(last)] {
            let page = small(&site, &format!("/workflows/{id}"));
            assert_eq!(page.text.matches("class=\"node ").count(), 200);
            page.shows("200 jobs are shown");
            page.shows(" chosen\"");
        }
    }
);

conformance!(
    fn a_workflow_in_a_ring_and_a_long_chain_are_drawn(db: &mut Db) {
        let mut conn = prepare(db);
        let workflow = Workflow::new();
        let mut before = workflow.add(&Note { n: 0 });
        for n in 1..150 {
            before = workflow.add(&Note { n }).after(before);
        }
        let ids = workflow.enqueue(&mut conn).unwrap();
        let last = ids.id_of(before);
        // By hand, as no program does it.
        let first = db.integer("SELECT min(id) FROM leasehold.jobs");
        db.sql(&format!(
            "INSERT INTO leasehold.job_waits (job_id, on_job_id, name, anyway) \
             SELECT {first}, {last}, 'ring', anyway FROM leasehold.job_waits LIMIT 1"
        ));
        let ring = small(&reader(db), &format!("/workflows/{last}"));
        assert_eq!(ring.text.matches("class=\"node ").count(), 150);
        ring.hides("are shown, those that are nearest");
    }
);
