//! The site in a program that runs on axum.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use axum::routing::any;
use http::header::CONTENT_LENGTH;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::site::{MOST, Site};

/// For a form.
const SENT_WITHIN: Duration = Duration::from_secs(10);
/// Longer than the database is waited for, so that a page can say itself what is wrong.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Routes for all that is under the path of the site ([`SiteBuilder::under`](crate::SiteBuilder::under)), to be merged with the
/// program's own.
///
/// The site is asked on threads that may wait, of a runtime with tokio's timer (`Builder::enable_time`), and answers within
/// half a minute, whatever its database does.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use leasehold_web::Site;
///
/// let site = Site::builder()
///     .under("/queue")
///     .host("example.com")
///     .authenticate(|request| {
///         // Set by the proxy in front, which lets nobody else set it.
///         let user = request.headers.get("x-remote-user")?;
///         Some(user.to_str().ok()?.to_owned())
///     })
///     .open::<diesel::SqliteConnection>("queue.db")?;
/// let app: axum::Router = axum::Router::new().merge(leasehold_web::router(Arc::new(site)));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub fn router<S: Clone + Send + Sync + 'static>(site: Arc<Site>) -> Router<S> {
    let base = site.base().to_owned();
    let answer = any(move |OriginalUri(uri): OriginalUri, mut request: Request| {
        *request.uri_mut() = uri;
        answer(Arc::clone(&site), request)
    });
    let router = Router::new()
        .route(&format!("{base}/"), answer.clone())
        .route(&format!("{base}/{{*rest}}"), answer.clone());
    match base.is_empty() {
        true => router,
        false => router.route(&base, answer),
    }
}

/// The site's word, in a bounded time: whoever sends slowly, or asks a database that hangs, keeps no thread from the others.
async fn answer(site: Arc<Site>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let stated = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if stated.is_some_and(|bytes: u64| bytes > MOST as u64) {
        return site.too_large().map(Body::from);
    }
    let response = match timeout(SENT_WITHIN, to_bytes(body, MOST)).await {
        Ok(Ok(bytes)) => {
            let (asked, since) = (Arc::clone(&site), Instant::now());
            let request = Request::from_parts(parts, bytes.to_vec());
            // One that has waited for a thread for so long is not asked for any more.
            let answered = spawn_blocking(move || (since.elapsed() < ANSWERED_WITHIN).then(|| asked.handle(request)));
            match timeout(ANSWERED_WITHIN, answered).await {
                Ok(Ok(Some(response))) => response,
                Ok(Err(_)) => site.broken(),
                Ok(Ok(None)) | Err(_) => site.late(),
            }
        }
        Ok(Err(_)) => site.too_large(),
        Err(_) => site.too_slow(),
    };
    response.map(Body::from)
}
