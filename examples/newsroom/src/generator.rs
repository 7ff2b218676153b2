//! A slow service that writes articles, and counts its calls and their effects by idempotency key.
//!
//! It stands for any service that costs time and money: a call that repeats another one, key and all, is answered with what
//! was written for that one. No two articles are alike, so one that was written twice can be told.

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Requests, repeated ones included.
    pub calls: u32,
    /// Different articles that they asked for: a key that stands for more than one is a mistake of the caller.
    pub effects: u32,
}

/// What one key has stood for.
#[derive(Debug, Default)]
struct Asked {
    calls: u32,
    /// By title; `None` until it is written.
    articles: HashMap<String, Option<String>>,
}

#[derive(Debug, Default)]
struct Written {
    articles: u32,
    keys: HashMap<String, Asked>,
}

impl Written {
    /// Takes a call down; with the article, if it has been written.
    fn ask(&mut self, key: &str, title: &str) -> Option<String> {
        let asked = self.keys.entry(key.to_owned()).or_default();
        asked.calls += 1;
        asked.articles.entry(title.to_owned()).or_default().clone()
    }

    /// The article, written now if it has not been.
    fn write(&mut self, key: &str, title: &str) -> String {
        let asked = self.keys.entry(key.to_owned()).or_default();
        let article = asked.articles.entry(title.to_owned()).or_default();
        let text = article.get_or_insert_with(|| {
            self.articles += 1;
            format!("{title}. More on this in article {}.", self.articles)
        });
        text.clone()
    }
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
        let count = |asked: &Asked| Count {
            calls: asked.calls,
            effects: u32::try_from(asked.articles.len()).unwrap_or(u32::MAX),
        };
        self.written()
            .keys
            .iter()
            .map(|(key, asked)| (key.clone(), count(asked)))
            .collect()
    }

    /// The articles that were written under a key.
    #[must_use]
    pub fn written_for(&self, key: &str) -> Vec<String> {
        let written = self.written();
        written
            .keys
            .get(key)
            .map_or_else(Vec::new, |asked| asked.articles.values().flatten().cloned().collect())
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
    let known = generator.written().ask(&key, &title);
    if let Some(text) = known {
        return Ok(text);
    }
    tokio::time::sleep(generator.delay).await;
    Ok(generator.written().write(&key, &title))
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
