//! A person looks at each page and does each thing once.

use fantoccini::error::CmdError;
use leasehold::inspect::{self, State};
use leasehold::manage;
use leasehold::schedule;
use leasehold::{Backend, Schema};
use leasehold_tests::{TestDb, conformance};

use crate::browser::{Page, Window, installed, with_browser};
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

pub(crate) fn paths<C: Backend>(fixture: &Fixture<C>) -> Vec<String> {
    vec![
        "/".to_owned(),
        "/queues".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs/{}", fixture.failed),
        "/schedules".to_owned(),
        "/batches".to_owned(),
        format!("/batches/{}", fixture.batch),
        format!("/workflows/{}", fixture.flow),
        "/workers".to_owned(),
    ]
}

async fn act<C: Backend>(page: &Page, fixture: &Fixture<C>) -> Result<(), CmdError> {
    page.open(&format!("/jobs/{}", fixture.failed)).await?;
    page.click("form[action$=retry] button").await?;
    page.says("ready").await?;

    page.open(&format!("/jobs/{}", fixture.waiting)).await?;
    page.click("details:nth-of-type(1) summary").await?;
    page.write("form[action$=cancel] [name=reason]", "not needed").await?;
    page.click("form[action$=cancel] button").await?;
    page.says("not needed (by hand: Ada)").await?;
    page.click("form[action$=retry] button").await?;
    page.click("details:nth-of-type(2) summary").await?;
    page.click("form[action$=discard] button").await?;
    page.says("no reason given (by hand: Ada)").await?;

    page.open("/queues").await?;
    page.write("form[action$=pause] [name=name]", "mail").await?;
    page.write("form[action$=pause] [name=reason]", "moving").await?;
    page.click("form[action$=pause] button").await?;
    page.says("moving").await?;
    page.click("form[action$=resume] button").await?;
    page.says_no_more("moving").await?;
    page.open("/schedules").await?;
    page.click("tr:nth-child(2) form[action$=pause] button").await?;
    page.click("tr:nth-child(2) form[action$=resume] button").await?;
    page.text("tr:nth-child(2) form[action$=pause] button").await?;

    page.open("/jobs").await?;
    page.write("[name=error]", "not an address").await?;
    page.click("main form button").await?;
    page.says("discarded").await?;

    page.click("header form button").await?;
    page.client
        .wait()
        .for_element(fantoccini::Locator::Css("[name=token]"))
        .await?;
    Ok(())
}

conformance!(
    fn a_person_looks_at_each_page_and_does_each_thing(db: &mut Db) {
        let Some(installed) = installed() else {
            leasehold_tests::skipped(module_path!(), "there is no Chromium with its driver");
            return;
        };
        let fixture = Fixture::new(db);
        with_browser(&installed, WINDOW, &fixture.url(), async |page| {
            log_in(page).await?;
            for path in paths(&fixture) {
                page.open(&path).await?;
                assert!(!page.text("h1").await?.is_empty());
            }
            act(page, &fixture).await
        });
        with_browser(&installed, PHONE, &fixture.url(), async |page| {
            log_in(page).await?;
            for path in paths(&fixture) {
                page.open(&path).await?;
            }
            Ok(())
        });
        let (conn, schema) = (&mut db.connect(), Schema::default());
        let state = |conn: &mut Connection, id| inspect::job(conn, &schema, id).unwrap().unwrap().state;
        assert_eq!(state(conn, fixture.failed), State::Ready);
        assert_eq!(state(conn, fixture.waiting), State::Discarded);
        let pauses = manage::pauses(conn, &schema).unwrap();
        assert_eq!(pauses.len(), 1, "{pauses:?}");
        assert!(
            schedule::list(conn, &schema)
                .unwrap()
                .iter()
                .any(|schedule| schedule.paused)
        );
    }
);
