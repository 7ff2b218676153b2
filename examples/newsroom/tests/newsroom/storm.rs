//! Two processes, eight clients, and a kill every two seconds.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use newsroom::generator::Generator;

use crate::support::*;

const ISSUES: u32 = 100;
const CLIENTS: u32 = 8;
const POSTS: u32 = 50;
const BETWEEN_KILLS: Duration = Duration::from_secs(2);

/// How long it rages: ten seconds, or as `LEASEHOLD_STORM_SECONDS` says.
fn storm_time() -> Duration {
    let seconds = std::env::var("LEASEHOLD_STORM_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(10))
}

/// A newsroom in a process of its own; killed when it is dropped.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(database: &str, generator: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_newsroom"))
            .args([
                database,
                "--listen",
                "127.0.0.1:0",
                "--generator",
                generator,
                "--lease",
                "2000",
            ])
            .args(["--trigger", "*/3 * * * * *", "--writers", "4", "--issues", "100"])
            .env("RUST_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        let url = url.trim().to_owned();
        assert!(url.starts_with("http://"), "it says where it listens: {url:?}");
        Self { child, url }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Posts all ids again and again, to one process and the other; how often it was answered.
fn client(number: u32, urls: &Mutex<[String; 2]>, pause: Duration) -> u32 {
    let ids: Vec<i64> = (1..=i64::from(ISSUES)).collect();
    let body = serde_json::json!({ "issue_ids": ids }).to_string();
    let agent = agent();
    let mut answered = 0;
    for post in 0..POSTS {
        let url = urls.lock().unwrap_or_else(PoisonError::into_inner)[((number + post) % 2) as usize].clone();
        let request = agent
            .post(format!("{url}/ai-articles"))
            .header("content-type", "application/json");
        // No answer comes from a process that is killed, or not there at this moment.
        if let Ok(answer) = request.send(&body) {
            assert!([202, 409].contains(&answer.status().as_u16()), "{}", answer.status());
            answered += 1;
        }
        thread::sleep(pause);
    }
    answered
}

conformance!(
    fn a_storm_of_requests_and_kills_leaves_one_article_on_each_issue(db: &mut Db) {
        let time = storm_time();
        // All articles take most of the time together, so every kill meets some that are being written.
        let generator = Generator::start(time * 4 / ISSUES).unwrap();
        let begin = || Process::start(&db.url(), generator.url());
        let mut processes = [begin(), begin()];
        let urls = Mutex::new([processes[0].url.clone(), processes[1].url.clone()]);
        let (answered, kills) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (urls, answered) = (&urls, &answered);
                scope.spawn(move || answered.fetch_add(client(number, urls, time / POSTS), Ordering::Relaxed));
            }
            let until = Instant::now() + time;
            while Instant::now() + BETWEEN_KILLS < until {
                thread::sleep(BETWEEN_KILLS);
                let victim = (kills.fetch_add(1, Ordering::Relaxed) % 2) as usize;
                processes[victim] = begin();
                urls.lock().unwrap()[victim].clone_from(&processes[victim].url);
            }
        });
        // Nobody asks any more: the schedule finds what is left, the leases of the dead among it.
        eventually(SOON * 3, "no issue is left behind", || {
            with_status(db, "DONE") == i64::from(ISSUES)
        });
        drop(processes);
        assert_eq!(articles(db), i64::from(ISSUES), "exactly one article on each issue");
        assert_eq!(
            db.integer("SELECT count(DISTINCT issue_id) FROM article"),
            i64::from(ISSUES)
        );
        let counts = generator.counts();
        assert_eq!(counts.len(), ISSUES as usize, "one idempotency key for each issue");
        assert!(counts.values().all(|count| count.effects == 1), "{counts:?}");
        for issue in 1..=i64::from(ISSUES) {
            let text = db.text(&format!("SELECT text FROM article WHERE issue_id = {issue}"));
            let written = generator.written_for(&format!("issue:{issue}"));
            assert_eq!(
                text.map(|text| vec![text]),
                Some(written),
                "what was written the first time"
            );
        }
        let repeated = counts.values().filter(|count| count.calls > 1).count();
        let (answered, kills) = (answered.into_inner(), kills.into_inner());
        eprintln!("{answered} requests answered, {kills} kills, {repeated} articles asked for more than once");
        assert!(answered > CLIENTS && kills > 0 && repeated > 0);
    }
);
