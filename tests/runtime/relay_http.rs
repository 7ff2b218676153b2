//! Deliveries by HTTP.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leasehold::outbox::{self, Event, HttpPost, Relay};
use leasehold::{Backoff, Counts, Schema, Worker};
use leasehold_tests::jobs::prepare;
use leasehold_tests::{Answer, Receiver, Request, TestDb, capture_log, conformance};

const SECRETS: [&str; 2] = [
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
];

/// Emits one event, and delivers it to a receiver that answers so; what it was sent, and the counts.
fn deliver<D: TestDb>(
    db: &mut D,
    post: impl FnOnce(HttpPost) -> HttpPost,
    answers: impl Fn(usize) -> Answer + Send + Sync + 'static,
) -> (Vec<Request>, Counts, uuid::Uuid) {
    let mut conn = prepare(db);
    let event = Event::new("t", &serde_json::json!({ "text": "grüße" })).max_attempts(3);
    let id = outbox::emit(&mut conn, &Schema::default(), &event).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let receiver = Receiver::start({
        let seen = Arc::clone(&seen);
        move |request| {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            answers(seen.len())
        }
    });
    let post = post(HttpPost::to(&receiver.url("/hooks/s3cret?x=1")).unwrap());
    let relay = Relay::new(post).backoff(Backoff::fixed(Duration::from_millis(10)));
    let summary = Worker::<D::Connection, _>::new(db.url(), ())
        .relay_with("t", relay)
        .patience(Duration::from_secs(30))
        .run_until_empty()
        .unwrap();
    let seen = seen.lock().unwrap().clone();
    (seen, summary.counts, id)
}

fn error_of<D: TestDb>(db: &mut D) -> String {
    db.text("SELECT error FROM leasehold.outbox_events").unwrap()
}

/// Base64 and HMAC-SHA256 as their standards (RFC 4648, RFC 2104) write them, beside what the library uses.
mod by_hand {
    use sha2::{Digest, Sha256};

    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    pub(super) fn decode(text: &str) -> Vec<u8> {
        let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
        for letter in text.bytes().filter(|letter| *letter != b'=') {
            let value = LETTERS.iter().position(|other| *other == letter).unwrap();
            bits = bits << 6 | u32::try_from(value).unwrap();
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
            }
        }
        bytes
    }

    pub(super) fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
        let pad = |with: u8| (0..64).map(|at| key.get(at).unwrap_or(&0) ^ with).collect::<Vec<u8>>();
        let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
        Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
    }
}

conformance!(
    fn a_request_is_signed_as_the_specification_says_with_each_secret(db: &mut Db) {
        let signed = |post: HttpPost| {
            let post = SECRETS.iter().fold(post, |post, secret| post.signed(secret).unwrap());
            post.header("Authorization", "Bearer s3cret").unwrap()
        };
        let (seen, counts, id) = deliver(db, signed, |_| Answer::status(204));
        assert_eq!((counts.delivered, seen.len()), (1, 1));
        let (request, id) = (&seen[0], id.to_string());
        let header = |name: &str| request.headers[name].as_str();
        assert_eq!(
            (request.line.as_str(), header("content-type")),
            ("POST /hooks/s3cret?x=1", "application/json")
        );
        assert_eq!(request.body, r#"{"text":"grüße"}"#);
        assert_eq!(
            (header("webhook-id"), header("idempotency-key")),
            (id.as_str(), id.as_str())
        );
        assert_eq!(header("authorization"), "Bearer s3cret");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(header("webhook-timestamp").parse().unwrap());
        assert!(SystemTime::now().duration_since(time).unwrap() < Duration::from_secs(60));

        let message = format!("{id}.{}.{}", header("webhook-timestamp"), request.body);
        let signatures: Vec<&str> = header("webhook-signature").split(' ').collect();
        assert_eq!(signatures.len(), 2);
        for (signature, secret) in signatures.iter().zip(SECRETS) {
            let key = by_hand::decode(secret.strip_prefix("whsec_").unwrap());
            let given = by_hand::decode(signature.strip_prefix("v1,").unwrap());
            assert_eq!(given, by_hand::hmac(&key, message.as_bytes()));
        }
    }
);

conformance!(
    fn a_refusal_is_tried_again_with_the_same_id_and_without_a_secret_there_is_no_signature(db: &mut Db) {
        let (seen, counts, _) = deliver(db, |post| post, |n| Answer::status(if n < 3 { 500 } else { 200 }));
        assert_eq!((counts.delivered, counts.delivery_failed, seen.len()), (1, 2, 3));
        assert!(
            seen.iter()
                .all(|request| request.headers["webhook-id"] == seen[0].headers["webhook-id"])
        );
        assert!(!seen[0].headers.contains_key("webhook-signature"));
    }
);

conformance!(
    fn gone_is_dead_at_once_and_the_answer_is_kept_cut_and_storable(db: &mut Db) {
        let (seen, counts, _) = deliver(
            db,
            |post| post,
            |_| Answer {
                body: format!("a\0b{}", "x".repeat(100_000)),
                ..Answer::status(410)
            },
        );
        assert_eq!((counts.dead, seen.len()), (1, 1));
        let error = error_of(db);
        assert!(
            error.starts_with("the receiver answered 410 Gone: a\u{fffd}bxxx"),
            "{error}"
        );
        assert!(error.len() < 600, "{}", error.len());
    }
);

conformance!(
    fn no_redirect_is_followed(db: &mut Db) {
        let elsewhere = Receiver::start(|_| panic!("it was followed"));
        let to = elsewhere.url("/");
        let (seen, counts, _) = deliver(
            db,
            |post| post,
            move |_| Answer {
                headers: vec![("location", to.clone())],
                ..Answer::status(307)
            },
        );
        assert_eq!((counts.dead, counts.delivery_failed, seen.len()), (1, 2, 3));
        assert!(error_of(db).contains("307"));
    }
);

conformance!(
    fn a_receiver_says_when_it_wants_to_be_asked_again(db: &mut Db) {
        let (seen, counts, _) = deliver(
            db,
            |post| post,
            |_| Answer {
                headers: vec![("retry-after", "600".to_owned())],
                ..Answer::status(429)
            },
        );
        // Which is after the worker's patience.
        assert_eq!((counts.delivery_failed, seen.len()), (1, 1));
        let ready = "SELECT count(*) FROM leasehold.outbox_events WHERE state = 'ready'";
        assert_eq!(db.integer(ready), 1);
    }
);

conformance!(
    fn a_receiver_that_is_away_or_silent_shows_no_secret(db: &mut Db) {
        // Every test's log lines come here.
        let secret = format!("s3cret-of-{}", Db::BACKEND);
        let hidden = format!("token-of-{}", Db::BACKEND);
        let log = capture_log();
        let mut conn = prepare(db);
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for (topic, listener) in [("silent", &silent), ("gone", &gone)] {
            let event = Event::new(topic, &1).max_attempts(1);
            outbox::emit(&mut conn, &Schema::default(), &event).unwrap();
            assert!(listener.local_addr().is_ok());
        }
        let post = |listener: &std::net::TcpListener| {
            let url = format!("http://{}/{secret}", listener.local_addr().unwrap());
            let post = HttpPost::to(&url).unwrap().timeout(Duration::from_millis(200));
            post.header("authorization", &hidden).unwrap()
        };
        let worker = Worker::<Connection, _>::new(db.url(), ())
            .relay("silent", post(&silent))
            .relay("gone", post(&gone));
        drop(gone);
        let summary = worker.run_until_empty().unwrap();
        assert_eq!(summary.counts.dead, 2);
        let errors = db.texts("SELECT error FROM leasehold.outbox_events ORDER BY id");
        assert!(
            errors.iter().flatten().all(|error| !error.contains(&secret)),
            "{errors:?}"
        );
        assert!(
            errors[0].as_deref().is_some_and(|error| error.contains("timeout")),
            "{errors:?}"
        );
        // The client's own debug lines have the URL, as the documentation says, but no value of a header.
        let shown = log.with(&secret).into_iter();
        let ours: Vec<_> = shown.filter(|record| !record.target.starts_with("ureq")).collect();
        assert!(ours.is_empty(), "{ours:?}");
        assert!(log.with(&hidden).is_empty());
    }
);
