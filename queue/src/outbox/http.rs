//! Events by HTTP, as the [Standard Webhooks] specification says: feature `http`.
//!
//! [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

use std::fmt;
use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use ureq::http::{HeaderName, HeaderValue, Uri};

use super::{Deliver, DeliverError, Delivery};

const TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a receiver may ask for at the most.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// How much of an answer an error repeats.
const SHOWN_BYTES: u64 = 500;
/// How much of an answer is read so that its connection can be used again.
const DRAINED_BYTES: u64 = 16 * 1024;

/// Delivers events by an HTTP POST of their payload, as the [Standard Webhooks] specification has it.
///
/// Each request has the event's id in `webhook-id` and in `Idempotency-Key`, the time in `webhook-timestamp`, and with
/// [`HttpPost::signed`] an HMAC-SHA256 of id, time and body in `webhook-signature`. What follows from the answer:
///
/// | Answer | the event is |
/// | --- | --- |
/// | 2xx | delivered |
/// | 410 Gone | dead at once |
/// | 429 or 503 with `Retry-After` | tried again then, within an hour |
/// | any other, a redirect (none is followed), or none in time | tried again after the relay's backoff |
///
/// No line of this library shows the URL's path, a header or a secret. The client beneath, `ureq`, writes the path into lines of
/// the level debug; where the path is a secret, keep its level at info.
///
/// A request takes 20 seconds at the most, 5 of them to connect, unless [`HttpPost::timeout`] says otherwise.
///
/// ```no_run
/// # include!("../doctest_setup.rs");
/// use leasehold::Worker;
/// use leasehold::outbox::HttpPost;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (url, _conn) = doctest_database();
/// let post = HttpPost::to("https://shop.example/hooks")?.signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let running = Worker::<SqliteConnection, _>::new(url, ()).relay("orders", post).start()?;
/// # drop(running);
/// # Ok(())
/// # }
/// ```
///
/// [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
pub struct HttpPost {
    agent: ureq::Agent,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    secrets: Vec<Vec<u8>>,
    timeout: Duration,
}

/// A mistake in how an [`HttpPost`] was described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpPostError {
    /// Not the absolute URL of an HTTP server.
    #[error("not a URL that begins with http:// or https://")]
    Url,
    /// The URL holds a user or password.
    #[error("the URL holds credentials, which would show in logs: give them as a header")]
    Credentials,
    /// A header that cannot be sent, or that is set for each event.
    #[error("the header {0:?} cannot be sent, or is set for each event")]
    Header(String),
    /// Not a signing secret.
    #[error("a signing secret is `whsec_` and the base64 of 24 to 64 random bytes")]
    Secret,
}

impl HttpPost {
    /// Posts to this URL, which may hold no credentials.
    ///
    /// # Errors
    ///
    /// [`HttpPostError`]. The URL is not repeated in it.
    pub fn to(url: &str) -> Result<Self, HttpPostError> {
        let url: Uri = url.parse().map_err(|_| HttpPostError::Url)?;
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        match url.authority() {
            Some(authority) if authority.as_str().contains('@') => return Err(HttpPostError::Credentials),
            Some(_) if is_http => {}
            _ => return Err(HttpPostError::Url),
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("leasehold/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: config.new_agent(),
            url,
            headers: Vec::new(),
            secrets: Vec::new(),
            timeout: TIMEOUT,
        })
    }

    /// Signs each request with this secret, which is written `whsec_` and base64. While a secret is being replaced, call it
    /// for the new one and the old one: each request then has the signatures of both.
    ///
    /// # Errors
    ///
    /// [`HttpPostError::Secret`]. The secret is not repeated in it.
    pub fn signed(mut self, secret: &str) -> Result<Self, HttpPostError> {
        let text = secret.strip_prefix("whsec_").ok_or(HttpPostError::Secret)?;
        let bytes = STANDARD.decode(text).map_err(|_| HttpPostError::Secret)?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(HttpPostError::Secret);
        }
        self.secrets.push(bytes);
        Ok(self)
    }

    /// Sends this header with each request: `authorization`, say. Its value is never shown.
    ///
    /// # Errors
    ///
    /// [`HttpPostError::Header`].
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, HttpPostError> {
        const OURS: [&str; 7] = [
            "content-type",
            "content-length",
            "host",
            "idempotency-key",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
        ];
        let refused = || HttpPostError::Header(name.to_owned());
        let parsed: HeaderName = name.parse().map_err(|_| refused())?;
        if OURS.contains(&parsed.as_str()) {
            return Err(refused());
        }
        let mut value: HeaderValue = value.parse().map_err(|_| refused())?;
        value.set_sensitive(true);
        self.headers.push((parsed, value));
        Ok(self)
    }

    /// How long a request may take. Keep it below a third of the relay's lease.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The signatures of `id.timestamp.body`, one for each secret.
    fn signatures(&self, id: &str, timestamp: u64, body: &str) -> String {
        let sign = |secret: &Vec<u8>| {
            // A key of any length is taken.
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            for part in [id, ".", &timestamp.to_string(), ".", body] {
                mac.update(part.as_bytes());
            }
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        };
        self.secrets.iter().filter_map(sign).collect::<Vec<_>>().join(" ")
    }

    fn request(&self, delivery: &Delivery<'_>) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let (id, body) = (delivery.event_id().to_string(), delivery.payload_json());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = since.as_secs();
        let mut request = self
            .agent
            .post(self.url.clone())
            .config()
            .timeout_global(Some(self.timeout))
            .build()
            .header("content-type", "application/json")
            .header("idempotency-key", &id)
            .header("webhook-id", &id)
            .header("webhook-timestamp", timestamp.to_string());
        if !self.secrets.is_empty() {
            request = request.header("webhook-signature", self.signatures(&id, timestamp, body));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.send(body)
    }

    /// An error's text without the URL's path, which may be a secret.
    fn masked(&self, error: &ureq::Error) -> String {
        let text = error.to_string();
        match self.url.path_and_query() {
            Some(path) if path.as_str().len() > 1 => text.replace(path.as_str(), "/…"),
            _ => text,
        }
    }
}

impl Deliver for HttpPost {
    fn deliver(&self, delivery: &Delivery<'_>) -> Result<(), DeliverError> {
        let mut response = match self.request(delivery) {
            Ok(response) => response,
            Err(error) => return Err(DeliverError::retry(self.masked(&error))),
        };
        let status = response.status();
        let bytes = if status.is_success() {
            DRAINED_BYTES
        } else {
            SHOWN_BYTES
        };
        let mut answer = Vec::new();
        // The status is what counts: an answer that breaks off does not undo it.
        let _ = response.body_mut().as_reader().take(bytes).read_to_end(&mut answer);
        if status.is_success() {
            return Ok(());
        }
        let text = format!("the receiver answered {status}: {}", String::from_utf8_lossy(&answer));
        let wait = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok());
        match (status.as_u16(), wait.and_then(wait_of)) {
            (410, _) => Err(DeliverError::dead(text)),
            (429 | 503, Some(wait)) => Err(DeliverError::retry_after(text, wait)),
            _ => Err(DeliverError::retry(text)),
        }
    }
}

/// What `Retry-After` asks for: seconds, or a date.
fn wait_of(text: &str) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text)
            .ok()?
            .duration_since(SystemTime::now())
            .unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

impl fmt::Debug for HttpPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the path, which may be a secret, nor headers.
        f.debug_struct("HttpPost")
            .field("scheme", &self.url.scheme_str())
            .field("host", &self.url.host())
            .field("secrets", &self.secrets.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let post =
            HttpPost::to("http://localhost/").and_then(|post| post.signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        let signatures =
            post.map(|post| post.signatures("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#));
        assert_eq!(
            signatures.as_deref().ok(),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
    }

    #[test]
    fn what_a_receiver_asks_for_is_read_and_bounded() {
        assert_eq!(wait_of(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(wait_of("99999999"), Some(LONGEST_WAIT));
        assert_eq!(wait_of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait_of("Fri, 31 Dec 9999 23:59:59 GMT"), Some(LONGEST_WAIT));
        assert_eq!(wait_of("soon"), None);
        assert_eq!(wait_of("-1"), None);
    }

    #[test]
    fn no_secret_is_shown() {
        let post = HttpPost::to("https://h.example/hooks/s3cret?t=s3cret")
            .and_then(|post| post.signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
            .and_then(|post| post.header("Authorization", "Bearer s3cret"));
        let shown = format!("{post:?}");
        assert!(
            shown.contains("h.example") && !shown.contains("s3cret") && !shown.contains("MfKQ"),
            "{shown}"
        );
        for (url, mistake) in [
            ("https://me:s3cret@h.example/", "Credentials"),
            ("h.example", "Url"),
            ("ftp://h/", "Url"),
        ] {
            assert_eq!(format!("{:?}", HttpPost::to(url).err()), format!("Some({mistake})"));
        }
        for secret in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", "whsec_c2hvcnQ="] {
            let refused = HttpPost::to("http://h/").and_then(|post| post.signed(secret));
            assert!(matches!(refused, Err(HttpPostError::Secret)), "{secret}");
        }
    }
}
