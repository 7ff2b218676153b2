//! The site in a program that runs on axum.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request};
use axum::response::Response;
use axum::routing::any;

use crate::site::{MOST, Site};

/// Routes for all that is under the path of the site ([`SiteBuilder::under`](crate::SiteBuilder::under)), to be merged with the
/// program's own. The site is asked on threads that may wait.
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

async fn answer(site: Arc<Site>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let response = match to_bytes(body, MOST).await {
        Ok(bytes) => {
            let asked = Arc::clone(&site);
            let request = Request::from_parts(parts, bytes.to_vec());
            let answered = tokio::task::spawn_blocking(move || asked.handle(request)).await;
            answered.unwrap_or_else(|_| site.broken())
        }
        Err(_) => site.too_large(),
    };
    response.map(Body::from)
}
