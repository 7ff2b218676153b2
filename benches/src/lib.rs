//! What the benches share.

pub mod clock;
#[cfg(feature = "postgres")]
pub mod libpq;
#[cfg(feature = "postgres")]
pub mod reference;
pub mod samples;
pub mod statements;
pub mod work;
