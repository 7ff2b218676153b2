//! A database that is not there, not migrated, or does not answer.

use std::time::{Duration, Instant};

use leasehold_web::Site;

use crate::support::*;

/// A page that says in time that there is none.
#[track_caller]
fn refused(site: &Site, path: &str) -> Page {
    let since = Instant::now();
    let page = get(site, path);
    assert_eq!(page.status, 503, "{path}: {}", page.text);
    assert!(since.elapsed() < SOON, "{path}: {:?}", since.elapsed());
    page
}

conformance!(
    fn tables_that_are_missing_are_named_with_what_to_do(db: &mut Db) {
        let site = reader(db);
        for path in [
            "/",
            "/queues",
            "/jobs",
            "/jobs/1",
            "/schedules",
            "/batches",
            "/batches/1",
            "/workflows/1",
            "/workers",
        ] {
            refused(&site, path).shows("the tables of `leasehold` are not there: run `leasehold::migrate`");
        }
        let asking = open(db, Site::builder().token(TOKEN));
        let bearer = form("/jobs/1/cancel").header("authorization", format!("Bearer {TOKEN}"));
        assert_eq!(send(&asking, bearer.body(Vec::new()).unwrap()).status, 503);
        prepare(db);
        page(&site, "/");
    }
);

conformance!(
    fn tables_of_an_older_program_are_named_with_what_is_lacking(db: &mut Db) {
        let mut conn = prepare(db);
        leasehold::migrate::Migrations::new().down(&mut conn).unwrap();
        // Whatever the newest migration brought, no page that needs it says nothing.
        db.sql("DROP TABLE leasehold.pauses");
        let page = refused(&reader(db), "/");
        page.shows("lack");
        page.shows("run `leasehold::migrate`");
        page.hides("pauses");
    }
);

/// Where nothing is.
fn nowhere(backend: &str, folder: &std::path::Path) -> String {
    match backend {
        "sqlite" => folder.join("no/such/folder.db").display().to_string(),
        _ => format!("postgres:///leasehold?host={}", folder.display()),
    }
}

conformance!(
    fn a_database_that_is_nowhere_is_said_in_time(db: &mut Db) {
        let folder = tempfile::tempdir().unwrap();
        let url = nowhere(Db::BACKEND, folder.path());
        let site = Site::builder().open::<Connection>(&url).unwrap();
        // At the same time: no page waits until another has been given up.
        let since = Instant::now();
        // Nothing of the database's address is told.
        let inside = folder.path().to_str().unwrap();
        std::thread::scope(|scope| {
            for path in ["/", "/jobs", "/jobs/1", "/batches", "/workers", "/queues"] {
                let site = &site;
                scope.spawn(move || refused(site, path).hides(inside));
            }
        });
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
        assert_eq!(get(&site, "/style.css").status, 200);
    }
);

conformance!(
    #[skip(sqlite, "readers wait for nobody there")]
    fn statements_that_hang_end_and_keep_no_other_page(db: &mut Db) {
        use diesel::connection::SimpleConnection;

        prepare(db);
        let site = reader(db);
        let mut holder = db.connect();
        holder
            .batch_execute("BEGIN; LOCK TABLE leasehold.pauses IN ACCESS EXCLUSIVE MODE")
            .unwrap();
        let since = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| refused(&site, "/queues"));
            }
            // Beside those three there is a connection for what asks for something else.
            page(&site, "/jobs");
        });
        assert!(since.elapsed() < Duration::from_secs(40), "{:?}", since.elapsed());
        holder.batch_execute("ROLLBACK").unwrap();
        page(&site, "/queues");
    }
);
