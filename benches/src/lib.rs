//! What the benches share: a fresh database for each measurement, the jobs, the reference without a framework, and the
//! report. Run them with `--release`; see `docs/performance.md`.

#![cfg(any(feature = "postgres", feature = "sqlite"))]

pub mod options;
pub use options::{Extent, Options};

pub mod report;
pub use report::{Report, Setting};

pub mod bars;
pub use bars::Bar;

pub mod place;
pub use place::{Bench, Database, Place};

pub mod jobs;

pub mod ours;

pub mod raw;

pub mod rounds;

pub mod clock;

pub mod samples;

pub mod statements;

pub mod latency;

pub mod growth;

pub mod heartbeat;

pub mod throughput;

pub mod cost;

/// Any error ends a bench.
pub type Answer<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
