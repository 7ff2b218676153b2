//! A person looks at each page and does each thing once.

use fantoccini::error::CmdError;
use leasehold::inspect::{self, State};
use leasehold::manage;
use leasehold::schedule;
use leasehold::{Backend, Schema};
use leasehold_tests::TestDb;

use crate::browser::{ENTER, Page, TAB, Window, installed, with_browser};
use crate::fixture::{Fixture, TOKEN};

const WINDOW: Window = Window {
    width: 1200,
    height: 800,
    dark: false,
};

/// What a narrow telephone has.
const PHONE: Window = Window {
    width: 360,
    height: 740,
    dark: true,
};

pub(crate) async fn log_in(page: &Page) -> Result<(), CmdError> {
    page.open("/").await?;
    page.write("[name=token]", TOKEN).await?;
    page.write("[name=who]", "Ada").await?;
    page.click("main button").await?;
    page.says("completed").await
}

/// The pages, each with a name for its picture.
pub(crate) fn paths<C: Backend>(fixture: &Fixture<C>) -> Vec<(&'static str, String)> {
    vec![
        ("overview", "/".to_owned()),
        ("queues", "/queues".to_owned()),
        ("jobs", "/jobs?state=discarded".to_owned()),
        (
            "jobs-many",
            "/jobs/requeue?state=discarded&kind=send-email&which=all".to_owned(),
        ),
        ("jobs-one", format!("/jobs/{}", fixture.failed)),
        ("jobs-running", format!("/jobs/{}", fixture.held)),
        ("schedules", "/schedules".to_owned()),
        ("batches", "/batches".to_owned()),
        ("batches-one", format!("/batches/{}", fixture.batch)),
        ("workflows-one", format!("/workflows/{}", fixture.flow)),
        ("workers", "/workers".to_owned()),
        ("actions", "/actions".to_owned()),
    ]
}

/// By the keyboard alone: past the links of every page to what it is about.
async fn type_only(page: &Page) -> Result<(), CmdError> {
    page.open("/jobs").await?;
    let first = page.press(TAB).await?;
    assert_eq!(first, ("A".to_owned(), "Skip to the content".to_owned(), true));
    let content = page.press(ENTER).await?;
    assert_eq!(content.0, "MAIN");
    for _ in 0..4 {
        let (tag, text, is_seen) = page.press(TAB).await?;
        assert!(is_seen, "the focus on {tag} {text:?} is not seen");
    }
    Ok(())
}

/// From page to page and back, as a browser does it.
async fn turn_pages(page: &Page) -> Result<(), CmdError> {
    page.open("/jobs?kind=send-email").await?;
    let first = page.rows().await?;
    page.click("a[rel=next]").await?;
    page.says("First page").await?;
    let second = page.rows().await?;
    assert_eq!(first.len(), 50);
    assert!(!second.is_empty() && second.iter().all(|row| !first.contains(row)));
    page.client.back().await?;
    page.says("Next page").await?;
    assert_eq!(page.rows().await?, first);
    page.open("/jobs?kind=send-email&refresh=5").await?;
    page.text("meta[http-equiv=refresh]").await?;
    page.click("a.refresh").await?;
    page.says_no_more("http-equiv=\"refresh\"").await
}

async fn act<C: Backend>(page: &Page, fixture: &Fixture<C>) -> Result<(), CmdError> {
    page.open(&format!("/jobs/{}", fixture.failed)).await?;
    page.click("form[action$=requeue] button").await?;
    page.says("ready").await?;

    page.open(&format!("/jobs/{}", fixture.waiting)).await?;
    page.click("details:nth-of-type(1) summary").await?;
    page.write("form[action$=cancel] [name=reason]", "not needed").await?;
    page.click("form[action$=cancel] button").await?;
    page.says("not needed").await?;
    page.click("form[action$=requeue] button").await?;
    page.click("details:nth-of-type(2) summary").await?;
    page.click("form[action$=discard] button").await?;
    page.says("no reason given").await?;

    page.open("/queues").await?;
    page.write(".fields[action$=pause] [name=name]", "mail").await?;
    page.write(".fields[action$=pause] [name=reason]", "moving").await?;
    page.click(".fields[action$=pause] button").await?;
    page.says("moving").await?;
    page.click("section form[action$=resume]:has([value=mail]) button")
        .await?;
    page.says_no_more("moving").await?;
    page.open("/schedules").await?;
    page.click("tr:nth-child(2) form[action$=pause] button").await?;
    page.click("tr:nth-child(2) form[action$=resume] button").await?;
    page.text("tr:nth-child(2) form[action$=pause] button").await?;

    page.open("/jobs").await?;
    page.write("[name=error]", "not an address").await?;
    page.click("main form button").await?;
    page.text("a.refresh[href*='error=not']").await?;

    page.open("/jobs?state=discarded&error=not+an+address").await?;
    page.click(&format!("input[value='{}']", fixture.another)).await?;
    page.click("button[formaction$=requeue][value=job]").await?;
    page.says("Retry 1 job?").await?;
    page.click("button.danger").await?;
    page.says("Retry: 1 of 1").await?;

    page.click("header form button").await?;
    page.client
        .wait()
        .for_element(fantoccini::Locator::Css("[name=token]"))
        .await?;
    Ok(())
}

/// Gives everything a name as long as may be, without a space.
fn lengthen<D: TestDb>(db: &mut D) {
    let (name, long) = ("w".repeat(128), "w".repeat(255));
    db.sql(&format!(
        "UPDATE leasehold.jobs SET queue = '{name}', kind = '{name}', idempotency_key = substr('{long}', 1, 200) || id;
         UPDATE leasehold.finished_jobs SET queue = '{name}', kind = '{name}', reason = '{long}';
         UPDATE leasehold.job_errors SET error = '{long}{long}'; UPDATE leasehold.batches SET name = '{long}';
         UPDATE leasehold.job_progress SET text = '{long}'; UPDATE leasehold.workers SET host = '{long}'"
    ));
    let (conn, schema) = (&mut db.connect(), Schema::default());
    manage::pause(conn, &schema, manage::Scope::Kind(&name), &long, &long).unwrap();
}

async fn whole_visit<D: TestDb>(page: &Page, db: &mut D) -> Result<(), CmdError> {
    let fixture = Fixture::new(db);
    page.visit(fixture.url()).await?;
    page.look_through(PHONE).await?;
    log_in(page).await?;
    for (_, path) in paths(&fixture) {
        page.open(&path).await?;
    }
    page.look_through(WINDOW).await?;
    for (_, path) in paths(&fixture) {
        page.open(&path).await?;
        assert!(!page.text("h1").await?.is_empty());
    }
    type_only(page).await?;
    turn_pages(page).await?;
    act(page, &fixture).await?;

    lengthen(db);
    page.look_through(PHONE).await?;
    log_in(page).await?;
    for (_, path) in paths(&fixture) {
        page.open(&path).await?;
    }

    let (conn, schema) = (&mut db.connect(), Schema::default());
    let state = |conn: &mut D::Connection, id| inspect::job(conn, &schema, id).unwrap().unwrap().state;
    assert_eq!(state(conn, fixture.failed), State::Ready);
    assert_eq!(state(conn, fixture.another), State::Ready);
    assert_eq!(state(conn, fixture.waiting), State::Discarded);
    let pauses = manage::pauses(conn, &schema).unwrap();
    assert_eq!(pauses.len(), 2, "{pauses:?}");
    let schedules = schedule::list(conn, &schema).unwrap();
    assert!(schedules.iter().any(|schedule| schedule.paused));
    Ok(())
}

/// On both backends with one browser, which takes longer to start than to look around.
#[test]
fn a_person_looks_at_each_page_and_does_each_thing() {
    let Some(installed) = installed() else {
        leasehold_tests::skipped(module_path!(), "there is no Chromium with its driver");
        return;
    };
    with_browser(&installed, async |page| {
        #[cfg(feature = "sqlite")]
        whole_visit(page, &mut leasehold_tests::sqlite::Database::new()).await?;
        #[cfg(feature = "postgres")]
        whole_visit(page, &mut leasehold_tests::postgres::Database::new()).await?;
        Ok(())
    });
}
