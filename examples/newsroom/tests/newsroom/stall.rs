//! How long the event loop stands still while a claim waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use diesel::connection::SimpleConnection;
use newsroom::desk::Desk;
use newsroom::tables::Press;

use crate::support::*;

const LOCKED: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(10);

/// The claim on the event loop itself, as a program has it that calls the database where it stands.
fn naive<C: Press>(desk: Arc<Desk<C>>) -> Router {
    async fn occupy<C: Press>(State(desk): State<Arc<Desk<C>>>, Json(wanted): Json<serde_json::Value>) -> String {
        let ids: Vec<i64> = serde_json::from_value(wanted["issue_ids"].clone()).unwrap();
        serde_json::to_string(&desk.occupy(&ids).unwrap()).unwrap()
    }
    Router::new().route("/ai-articles", post(occupy::<C>)).with_state(desk)
}

/// Holds what a claim has to wait for, for half a second from when it says so.
fn lock<D: TestDb + 'static>(db: &D) -> impl FnOnce(&dyn Fn()) + Send + use<D> {
    let mut locker = db.connect();
    move |locked: &dyn Fn()| {
        locker
            .batch_execute(match D::BACKEND {
                "postgres" => "BEGIN; LOCK TABLE issue",
                _ => "BEGIN IMMEDIATE",
            })
            .unwrap();
        locked();
        thread::sleep(LOCKED);
        locker.batch_execute("COMMIT").unwrap();
    }
}

/// The longest that a ticker on the loop of `router` stood still while a request waited, and how long that was.
fn measure<D: TestDb + 'static>(db: &D, router: Router) -> (Duration, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let hold = lock(db);
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        let done = Arc::new(AtomicBool::new(false));
        let client = thread::spawn({
            let done = Arc::clone(&done);
            move || {
                let (is_locked, locked) = crossbeam_channel::bounded(1);
                let locker = thread::spawn(move || hold(&|| is_locked.send(()).unwrap()));
                locked.recv().unwrap();
                let asked = Instant::now();
                ask(&url, &[1]);
                let waited = asked.elapsed();
                done.store(true, Ordering::Release);
                locker.join().unwrap();
                waited
            }
        });
        let (mut longest, mut last) = (Duration::ZERO, Instant::now());
        while !done.load(Ordering::Acquire) {
            tokio::time::sleep(TICK).await;
            longest = longest.max(last.elapsed().saturating_sub(TICK));
            last = Instant::now();
        }
        (longest, client.join().unwrap())
    })
}

conformance!(
    fn s4_12_the_event_loop_goes_on_while_a_claim_waits_for_a_lock(db: &mut Db) {
        let service = start(db, 1, NEVER);
        let stalls = |router: fn(Arc<Desk<Connection>>) -> Router| {
            // A client that was kept from running asks when the lock is nearly gone, and shows nothing: once more.
            let measured: Vec<_> = (0..20)
                .map(|_| measure(&*db, router(Arc::clone(&service.desk))))
                .filter(|(_, waited)| *waited >= LOCKED / 2)
                .take(5)
                .collect();
            assert_eq!(measured.len(), 5, "claims waited for the lock: {measured:?}");
            measured.into_iter().map(|(stall, _)| stall)
        };
        // The best of five: on a busy machine a thread may be kept from running for as long as that.
        let ours = stalls(newsroom::api::router).min().unwrap();
        assert!(ours < Duration::from_millis(50), "it stood still for {ours:?}");
        let naive = stalls(naive).max().unwrap();
        assert!(naive >= LOCKED / 2, "on the loop itself, too: {naive:?}");
    }
);
