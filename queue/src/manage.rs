//! Changing what the queue does, by hand: for people and their tools.

mod pause;
pub use pause::{Pause, Scope, pause, pauses, resume};
