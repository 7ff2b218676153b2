//! What a page reads is bounded, however many jobs there are.

use http::header::COOKIE;
use leasehold_web::Site;

use crate::support::*;

/// Pages, and the most rows that each may read: what it may look at of each figure, and a little. A count to the end of any table
/// that is full, or of one of its states, is above that.
const PAGES: &[(&str, i64)] = &[
    // 10,000 each that are ready, scheduled and blocked; and what ended within the hour.
    ("/", 36_000),
    ("/queues", 34_000),
    // 10,000 jobs are looked at by the list and for the number of them, in either table.
    ("/jobs", 40_000),
    ("/jobs?state=ready", 40_000),
    ("/jobs?state=scheduled", 40_000),
    ("/jobs?state=running", 40_000),
    ("/jobs?state=completed", 40_000),
    ("/jobs?state=discarded", 40_000),
    ("/jobs?queue=nowhere", 40_000),
    ("/jobs?queue=nowhere&state=ready", 40_000),
    ("/jobs?kind=nowhere&state=discarded", 40_000),
    ("/jobs?error=nowhere", 40_000),
    ("/jobs?error=nowhere&state=discarded", 40_000),
    ("/jobs?age=7d", 40_000),
    // 10,000 that are open and of each state in which jobs end.
    ("/jobs?batch=1", 42_000),
    ("/jobs?batch=1&state=cancelled", 40_000),
    ("/jobs/cancel?state=ready&which=all", 40_000),
    ("/jobs/requeue?state=discarded&error=no+route&which=all", 40_000),
    ("/actions", 500),
    ("/actions?by=Ada", 500),
    ("/jobs/600001", 2_000),
    ("/jobs/199993", 500),
    // 200 jobs with four waits of each.
    ("/workflows/600001", 5_000),
    ("/schedules", 100),
    // 1,960 of each state of a batch.
    ("/batches", 10_000),
    // 10,000 of each state.
    ("/batches/1", 55_000),
    ("/batches/2", 100),
    ("/workers", 1_000),
];

/// As somebody who may act, to whom a page may say more.
fn look(site: &Site, path: &str) {
    let cookie = post(site, "/login", &[("token", TOKEN), ("who", "Ada")]).cookie();
    let request = request("GET", path).header(COOKIE, cookie);
    let page = send(site, request.body(Vec::new()).unwrap());
    assert_eq!(page.status, 200, "{path}: {}", page.text);
}

conformance! {
    #[skip(sqlite, "SQLite does not count the rows that it reads")]
    fn what_a_page_reads_does_not_grow_with_what_is_there(db: &mut Db) {
        drop(prepare(db));
        db.fill();
        let mut wrong = Vec::new();
        for (path, most) in PAGES {
            // Its connections go with the site.
            let reads = db.reads_of(|db| look(&open(db, Site::builder().token(TOKEN)), path));
            if reads.rows > *most || reads.pages > 4 * most {
                wrong.push(format!("{path}: {reads:?}, at the most {most}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
