//! A newsroom: articles are written on issues that people and a schedule ask for, each issue once.
//!
//! ```sh
//! cargo run -p newsroom                                             # SQLite, in newsroom.db; then open http://127.0.0.1:3000
//! cargo run -p newsroom --features postgres -- postgres://localhost/newsroom
//! ```
//!
//! `POST /ai-articles {"issue_ids": [1, 2, 3]}` is answered at once: 202 with the issues that it occupied and a reason for
//! each other one, 409 when it could occupy none. The articles are written in the background by a slow service, and each is
//! committed together with the issue's new status. A schedule asks for all that is left, through the same function. A
//! process that dies leaves its issues to the others when the leases end.
//!
//! - [`tables`]: the issues, which are owned rows, and the articles
//! - [`desk`]: what claims issues and writes articles
//! - [`trigger`]: the schedule
//! - [`api`]: HTTP, with the page
//! - [`generator`]: the slow service, which counts its calls

#![cfg(any(feature = "sqlite", feature = "postgres"))]

pub mod api;
pub mod desk;
pub mod generator;
pub mod tables;
pub mod trigger;
