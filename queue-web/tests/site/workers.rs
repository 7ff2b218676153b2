//! Worker processes and their leases.

use leasehold::{Job, Worker};

use crate::support::*;

conformance!(
    fn a_worker_is_shown_with_its_leases(db: &mut Db) {
        let mut conn = prepare(db);
        let site = reader(db);
        page(&site, "/workers").shows("No worker has been seen");
        let id = Step::waiting(1).enqueue(&mut conn).unwrap().id();
        let (app, remote) = app();
        let running = Worker::<Connection, _>::new(db.url(), app)
            .threads(3)
            .register::<Step>()
            .start()
            .unwrap();
        let begun = remote.begun();
        eventually(SOON, "the worker has its row", || {
            db.integer("SELECT count(*) FROM leasehold.workers") == 1
        });
        db.sql(&format!("UPDATE leasehold.workers SET host = '{SCRIPT}'"));

        let shown = page(&site, "/workers");
        shown.shows(&format!("<a href=\"/jobs/{id}\">{id}</a></th><td>step</td>"));
        shown.shows("&lt;script&gt;alert(1)&lt;/script&gt;");
        shown.shows("<meter");
        shown.is_tame();
        page(&site, &format!("/jobs/{id}")).shows("Lease left");
        begun.go();
        remote.ended();
        running.shutdown(SOON);
        page(&site, &format!("/jobs/{id}")).hides("Lease left");
        page(&site, "/workers").hides(&format!("/jobs/{id}"));
    }
);
