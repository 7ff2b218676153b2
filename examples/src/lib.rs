//! What the examples share.

#[cfg(feature = "sqlite")]
mod temporary;
#[cfg(feature = "sqlite")]
pub use temporary::temporary_database;
