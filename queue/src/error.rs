//! The errors inside other errors: what a name, a registration or a server lacks.
//!
//! Those that a program meets first are at the crate's root: [`EnqueueError`](crate::EnqueueError),
//! [`StartError`](crate::StartError), [`JobError`](crate::JobError); those of migrations in [`migrate`](mod@crate::migrate).

pub use crate::backend::ServerError;
pub use crate::lease::StepError;
pub use crate::name::NameError;
pub use crate::registry::RegistryError;
pub use crate::results::ResultError;
pub use crate::schema::SchemaNameError;
