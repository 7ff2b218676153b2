//! The web page of [`leasehold`]: queues, jobs, schedules, batches, workflows and workers, to look at and to act on.
//!
//! The page is made by a [`Site`], which knows no framework: a request of the crate `http` goes in, a response comes out.
//! It runs without scripts. `leasehold serve` shows it; a program of one's own mounts it.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use diesel::SqliteConnection;
//! use leasehold_web::Site;
//!
//! # let folder = tempfile::tempdir()?;
//! # let url = folder.path().join("queue.db").display().to_string();
//! # let mut conn = <SqliteConnection as diesel::Connection>::establish(&url)?;
//! # leasehold::migrate(&mut conn)?;
//! let site = Site::builder().open::<SqliteConnection>(&url)?;
//! let request = http::Request::get("/jobs").header("host", "localhost").body(Vec::new())?;
//! let response = site.handle(request);
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Who may do what
//!
//! | Given | Who may look | Who may act |
//! | --- | --- | --- |
//! | nothing | whoever reaches it under the name of this machine (`localhost`, `127.0.0.1`) | nobody |
//! | [`SiteBuilder::token`] | who has the token: by a form, or as a bearer token | the same |
//! | [`SiteBuilder::authenticate`] | whom the program's own function names | the same |
//!
//! What is done by hand is recorded with who did it. Payloads and results are hidden unless [`SiteBuilder::show_payloads`]
//! allows them: they may hold secrets. Error texts are shown.
//!
//! # How long a page takes
//!
//! Each page reads a bounded number of rows, however many jobs there are, and is smaller than about a megabyte; where something
//! is left out, it says so. The list of jobs looks at 10,000 of them for each answer, the newest first, and offers to look
//! further back. A database that is away, or does not answer, is waited for half a minute at the most (with `router()` and
//! `Server`), and other pages are answered meanwhile.
//!
//! # Features
//!
//! - `sqlite` (default), `postgres`, `postgres-bundled`: as of `leasehold`.
//! - `axum`: `router()`, for a program that runs on axum.
//! - `server` (default): `Server`, for a process that shows nothing but this page.

mod texts;

mod time;

mod request;

mod search;

mod data;

mod act;

mod session;

mod builder;
pub use builder::{BuildError, SiteBuilder};

mod site;
pub use site::Site;

mod guard;

mod respond;

mod route;

mod plot;

mod page;

#[cfg(feature = "axum")]
mod router;
#[cfg(feature = "axum")]
pub use router::router;

#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
pub use server::{ServeError, Server, Serving};
