//! HTTP: the requests for articles, and the page.
//!
//! The database is asked on threads that may wait (`spawn_blocking`): a claim that waited on the event loop would keep
//! every other request waiting.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use crate::desk::{Desk, DeskError};
use crate::tables::Press;

/// Ids in one request: as many as one claim takes.
pub const MOST: usize = leasehold::rows::MOST;

/// Nothing but this server's own files, and nothing inline: markup in a title stays a text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

#[derive(Deserialize)]
struct Wanted {
    issue_ids: Vec<i64>,
}

/// All that the newsroom answers.
pub fn router<C: Press>(desk: Arc<Desk<C>>) -> Router {
    Router::new()
        .route(
            "/",
            get(|| file("text/html; charset=utf-8", include_str!("page/index.html"))),
        )
        .route(
            "/app.js",
            get(|| file("text/javascript; charset=utf-8", include_str!("page/app.js"))),
        )
        .route(
            "/style.css",
            get(|| file("text/css; charset=utf-8", include_str!("page/style.css"))),
        )
        .route("/state", get(state::<C>))
        .route("/ai-articles", post(request_articles::<C>))
        .with_state(desk)
        .layer(from_fn(guarded))
}

async fn guarded(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind)], text)
}

/// 202 when any issue was occupied, 409 when none; the body has a reason for each other one.
async fn request_articles<C: Press>(
    State(desk): State<Arc<Desk<C>>>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Response {
    let Json(wanted) = match wanted {
        Ok(wanted) => wanted,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    if wanted.issue_ids.len() > MOST {
        return refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("a request has {MOST} issues at the most"),
        );
    }
    match off_the_loop(desk, move |desk| desk.occupy(&wanted.issue_ids)).await {
        Ok(answer) if answer.occupied.is_empty() => (StatusCode::CONFLICT, Json(answer)).into_response(),
        Ok(answer) => (StatusCode::ACCEPTED, Json(answer)).into_response(),
        Err(response) => response,
    }
}

async fn state<C: Press>(State(desk): State<Arc<Desk<C>>>) -> Response {
    match off_the_loop(desk, |desk| desk.look()).await {
        Ok(view) => Json(view).into_response(),
        Err(response) => response,
    }
}

/// Does what may wait on a thread that may.
async fn off_the_loop<C: Press, T: Send + 'static>(
    desk: Arc<Desk<C>>,
    work: impl FnOnce(&Desk<C>) -> Result<T, DeskError> + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(move || work(&desk)).await;
    let error: String = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    // Not told to the client: it may name the database's insides.
    log::error!("{error}");
    Err(refuse(
        StatusCode::SERVICE_UNAVAILABLE,
        "the database cannot be reached, ask again",
    ))
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}
