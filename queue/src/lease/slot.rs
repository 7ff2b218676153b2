//! Where a guard gets a connection from.

use crate::backend::{Backend, ConnectionSettings, WriteGate};
use crate::handler::JobError;
use crate::schema::Schema;

/// Where a guard gets a connection from. It stays with the runtime, so that a forgotten guard leaks none.
pub(crate) trait Slot<C: Backend>: Send {
    /// The connection for the handler's database work, taken from the pool when first asked for.
    fn connection(&mut self) -> Result<&mut C, JobError>;
    /// Gives the connection back; `broken`: closes it.
    fn give_back(&mut self, broken: bool);
    /// A new connection, to resolve a lost answer.
    fn fresh(&self) -> Result<C, JobError>;
    fn schema(&self) -> &Schema;
    fn settings(&self) -> &ConnectionSettings;
    fn write_gate(&self) -> &WriteGate;
    /// Whether a commit may be a savepoint in somebody's transaction: in tests only.
    fn permits_savepoint(&self) -> bool;
}
