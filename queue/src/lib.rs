//! A job queue for blocking Rust programs on Diesel, where a worker that lost its job cannot commit.
extern crate self as leasehold;
mod schema;
mod sql;
pub mod backend;
