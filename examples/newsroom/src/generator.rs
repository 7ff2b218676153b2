//! A slow service that writes articles, and counts its calls by their idempotency keys.
//!
//! It stands for any service that costs time and money: a call whose key it knows is answered with what it wrote for it the
//! first time.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;

const KEY: &str = "idempotency-key";

/// What was asked under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests, repeated ones included.
    pub calls: u32,
    /// Articles that were written.
    pub effects: u32,
}

#[derive(Debug, Default)]
struct Written {
    counts: HashMap<String, Count>,
    texts: HashMap<String, String>,
}

/// A service that runs until the process ends.
#[derive(Debug, Clone)]
pub struct Generator {
    url: String,
    delay: Duration,
    written: Arc<Mutex<Written>>,
}

impl Generator {
    /// Starts one on a port of its own, on a thread of its own; each article takes `delay`.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn start(delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let generator = Self {
            url: format!("http://{}/", listener.local_addr()?),
            delay,
            written: Arc::default(),
        };
        let router = Router::new().route("/", post(write)).with_state(generator.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("generator".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                axum::serve(listener, router).await
            })
        })?;
        Ok(generator)
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What was asked so far, by key.
    #[must_use]
    pub fn counts(&self) -> HashMap<String, Count> {
        self.written().counts.clone()
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(
    State(generator): State<Generator>,
    headers: HeaderMap,
    title: String,
) -> Result<String, (StatusCode, &'static str)> {
    let key = headers.get(KEY).and_then(|key| key.to_str().ok()).map(str::to_owned);
    let Some(key) = key else {
        return Err((StatusCode::BAD_REQUEST, "there is no idempotency key"));
    };
    let known = {
        let mut written = generator.written();
        written.counts.entry(key.clone()).or_default().calls += 1;
        written.texts.get(&key).cloned()
    };
    if let Some(text) = known {
        return Ok(text);
    }
    tokio::time::sleep(generator.delay).await;
    let mut written = generator.written();
    if let Some(text) = written.texts.get(&key) {
        return Ok(text.clone());
    }
    let text = format!("{title}. More on this when more is known.");
    written.counts.entry(key.clone()).or_default().effects += 1;
    written.texts.insert(key, text.clone());
    Ok(text)
}

/// Asks a service for an article.
///
/// # Errors
///
/// When it does not answer within a minute, or with anything but an article.
pub fn ask(url: &str, key: &str, title: &str) -> Result<String, Box<dyn std::error::Error>> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into();
    let mut answer = agent.post(url).header(KEY, key).send(title)?;
    Ok(answer.body_mut().read_to_string()?)
}
