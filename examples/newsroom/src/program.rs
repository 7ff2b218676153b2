//! Options, and what is started with them.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use newsroom::desk::{Desk, Settings};
use newsroom::generator::Generator;
use newsroom::tables::Press;
use newsroom::{api, trigger};

/// Writes articles on issues that people and a schedule ask for, each issue once.
#[derive(Debug, Parser)]
struct Options {
    /// A file for SQLite, or a postgres:// URL.
    #[arg(default_value = "newsroom.db")]
    database: String,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// The service that writes; without it one is started here.
    #[arg(long)]
    generator: Option<String>,
    /// Milliseconds that the service started here takes for an article.
    #[arg(long, default_value_t = 3000)]
    delay: u64,
    /// Articles that are written at a time.
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Milliseconds of a lease: how long an issue stays with a process that has died.
    #[arg(long, default_value_t = 10_000)]
    lease: u64,
    /// When to ask for all that is left, as a cron text; empty for never.
    #[arg(long, default_value = "0 * * * * *")]
    trigger: String,
    /// Issues to begin with, in an empty database.
    #[arg(long, default_value_t = 8)]
    issues: usize,
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let options = Options::parse();
    if options.database.starts_with("postgres://") || options.database.starts_with("postgresql://") {
        #[cfg(feature = "postgres")]
        return run::<diesel::PgConnection>(&options);
        #[cfg(not(feature = "postgres"))]
        return Err("built without PostgreSQL: add `--features postgres`".into());
    }
    #[cfg(feature = "sqlite")]
    return run::<diesel::SqliteConnection>(&options);
    #[cfg(not(feature = "sqlite"))]
    Err("built without SQLite: add `--features sqlite`".into())
}

fn run<C: Press>(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let generator = match &options.generator {
        Some(url) => url.clone(),
        None => Generator::start(Duration::from_millis(options.delay))?.url().to_owned(),
    };
    let desk = Desk::<C>::open(&Settings {
        database: options.database.clone(),
        generator,
        writers: options.writers,
        lease: Duration::from_millis(options.lease),
        issues: options.issues,
    })?;
    let triggered = match options.trigger.as_str() {
        "" => None,
        cron => Some(trigger::start(&options.database, desk.clone(), cron)?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.listen).await?;
        writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
        let stopped = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        axum::serve(listener, api::router(desk))
            .with_graceful_shutdown(stopped)
            .await
    })?;
    // What is being written goes on elsewhere when its leases have ended.
    if let Some(running) = triggered {
        running.shutdown(Duration::from_secs(5));
    }
    Ok(())
}
