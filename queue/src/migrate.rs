//! Creating and updating the queue's tables.
pub trait Migrate {}
