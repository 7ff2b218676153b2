//! A worker in a process of its own, which a test stops, signals or kills.
//!
//! ```text
//! leasehold-test-worker drain URL      until the queue is empty, or until signals end it
//! leasehold-test-worker serve URL      until signals end it
//! leasehold-test-worker relay=TO URL   delivers the topic `t` by HTTP to TO, until it is killed
//! ```
//!
//! It prints `begun N ATTEMPT` for each `Step` or effect of a `Charge`, which goes on when it reads the line `go N`, and `ended N committed` or
//! `ended N ERROR`. `Work` takes a moment and prints nothing.

#![cfg_attr(
    any(feature = "sqlite", feature = "postgres"),
    expect(clippy::print_stdout, reason = "what the handlers do goes to standard output")
)]

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn main() -> std::process::ExitCode {
    with_features::main()
}

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn main() {}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod with_features {
    use std::collections::HashMap;
    use std::io::BufRead;
    use std::process::ExitCode;
    use std::time::Duration;

    use leasehold::outbox::{HttpPost, Relay};
    use leasehold::{Backoff, StartError, Worker};
    use leasehold_tests::jobs::{App, Begun, Charge, Deadly, Effects, HOUR, Note, Remote, Step, Work, app};

    pub(super) fn main() -> ExitCode {
        env_logger::Builder::new()
            .filter_level(log::LevelFilter::Info)
            .format_timestamp(None)
            .init();
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [mode, url] = arguments.as_slice() else {
            eprintln!("usage: leasehold-test-worker (drain | serve | relay=TO) URL");
            return ExitCode::from(2);
        };
        let ran = match url.starts_with("postgres") {
            #[cfg(feature = "postgres")]
            true => run::<diesel::PgConnection>(mode, url),
            #[cfg(feature = "sqlite")]
            false => run::<diesel::SqliteConnection>(mode, url),
            #[allow(unreachable_patterns, reason = "with both backends there are no others")]
            _ => return ExitCode::from(2),
        };
        ran.unwrap_or_else(|error| {
            eprintln!("{error}");
            ExitCode::from(2)
        })
    }

    fn run<C: Effects>(mode: &str, url: &str) -> Result<ExitCode, StartError> {
        if let Some(to) = mode.strip_prefix("relay=") {
            return relay::<C>(to, url);
        }
        let (app, remote) = app();
        direct(remote);
        let worker = Worker::<C, App>::new(url, app)
            .threads(2)
            .poll_interval(Duration::from_millis(100))
            .sweep_interval(Duration::from_millis(100))
            .stop_on_signals()
            .register::<Step>()
            .register::<Note>()
            .register::<Work>()
            .register::<Deadly>()
            .register::<Charge>();
        if mode == "drain" {
            return Ok(worker.run_until_empty()?.exit_code());
        }
        let report = worker.start()?.run_until_signalled(HOUR)?;
        println!("stopped {} {} {}", report.completed, report.released, report.abandoned);
        Ok(ExitCode::SUCCESS)
    }

    /// With a short lease, so that what a killed process had claimed is soon taken over.
    fn relay<C: Effects>(to: &str, url: &str) -> Result<ExitCode, StartError> {
        let post = HttpPost::to(to).expect("the test's own URL");
        let relay = Relay::new(post)
            .lease(Duration::from_secs(1))
            .backoff(Backoff::fixed(Duration::from_millis(20)))
            .batch(20)
            .threads(2);
        let _running = Worker::<C, ()>::new(url, ())
            .poll_interval(Duration::from_millis(50))
            .sweep_interval(Duration::from_millis(100))
            .relay_with("t", relay)
            .start()?;
        println!("relaying");
        // The test keeps its end open for as long as it wants the process to go on.
        let _ = std::io::stdin().lock().lines().map_while(Result::ok).count();
        Ok(ExitCode::from(3))
    }

    /// Tells what handlers do, and lets them go on as it is told.
    fn direct(remote: Remote) {
        let (begun, ended) = remote.into_channels();
        let (orders, order) = crossbeam_channel::unbounded();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let _ = orders.send(line);
            }
            // The test keeps its end open for as long as it wants the process to go on.
            std::process::exit(3);
        });
        std::thread::spawn(move || {
            let mut waiting: HashMap<String, Begun> = HashMap::new();
            loop {
                crossbeam_channel::select! {
                    recv(begun) -> handler => {
                        let Ok(handler) = handler else { return };
                        println!("begun {} {}", handler.n, handler.attempt);
                        waiting.insert(format!("go {}", handler.n), handler);
                    }
                    recv(ended) -> handler => {
                        let Ok(handler) = handler else { return };
                        let how = handler.result.err().unwrap_or_else(|| "committed".to_owned());
                        println!("ended {} {how}", handler.n);
                    }
                    recv(order) -> line => {
                        if let Some(handler) = line.ok().and_then(|line| waiting.remove(&line)) {
                            handler.go();
                        }
                    }
                }
            }
        });
    }
}
