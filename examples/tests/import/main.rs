//! The program `import`, run as its users run it, on both backends.

#![cfg(any(feature = "sqlite", feature = "postgres"))]

mod program;

mod broken;
mod killed;
mod once;
mod storm;
mod usage;
