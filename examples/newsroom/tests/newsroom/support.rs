//! A newsroom inside of the test, and requests to it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
pub(crate) use leasehold_tests::{TestDb, conformance, eventually};
use newsroom::desk::{Desk, Settings};
use newsroom::generator::Generator;
use newsroom::tables::Press;
use serde_json::Value;

/// Longer than anything takes on a slow machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Articles that are not finished within a test.
pub(crate) const NEVER: Duration = Duration::from_secs(600);

/// A newsroom that runs until the test's process ends.
pub(crate) struct Service<C: Press> {
    pub(crate) url: String,
    pub(crate) desk: Arc<Desk<C>>,
    pub(crate) generator: Generator,
}

pub(crate) fn settings(db: &impl TestDb, generator: &str, issues: usize) -> Settings {
    Settings {
        database: db.url(),
        generator: generator.to_owned(),
        writers: 4,
        lease: Duration::from_secs(60),
        issues,
    }
}

/// Starts a newsroom of so many issues, each article of which takes so long.
pub(crate) fn start<D: TestDb<Connection: Press>>(db: &D, issues: usize, delay: Duration) -> Service<D::Connection> {
    let generator = Generator::start(delay).unwrap();
    let desk = Desk::<D::Connection>::open(&settings(db, generator.url(), issues)).unwrap();
    let url = serve(newsroom::api::router(Arc::clone(&desk)));
    Service { url, desk, generator }
}

/// Serves on a thread of its own.
pub(crate) fn serve(router: Router) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    thread::spawn(move || {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await
        })
    });
    url
}

pub(crate) fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(SOON)).build().into()
}

/// Posts a body to `/ai-articles`; status and answer.
#[track_caller]
pub(crate) fn post(url: &str, body: &str) -> (u16, Value) {
    let request = agent()
        .post(format!("{url}/ai-articles"))
        .header("content-type", "application/json");
    let mut answer = request.send(body).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap())
}

/// Asks for articles; status and answer.
#[track_caller]
pub(crate) fn ask(url: &str, ids: &[i64]) -> (u16, Value) {
    post(url, &serde_json::json!({ "issue_ids": ids }).to_string())
}

#[track_caller]
pub(crate) fn articles(db: &mut impl TestDb) -> i64 {
    db.integer("SELECT count(*) FROM article")
}

/// How many issues have a status.
#[track_caller]
pub(crate) fn with_status(db: &mut impl TestDb, status: &str) -> i64 {
    db.integer(&format!(
        "SELECT count(*) FROM issue WHERE processing_status = '{status}'"
    ))
}
