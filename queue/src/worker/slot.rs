//! Where a handler's connection comes from.

use diesel::r2d2::{ConnectionManager, Pool, PooledConnection};

use crate::backend::{Backend, ConnectionSettings, WriteGate};
use crate::handler::JobError;
use crate::lease::Slot;
use crate::schema::Schema;

/// At most one connection of the handlers' pool, taken when first asked for and given back after each use: a thread that
/// holds one never waits for a second, so a pool of one serves any number of threads.
pub(crate) struct PoolSlot<C: Backend> {
    pool: Pool<ConnectionManager<C>>,
    url: String,
    settings: ConnectionSettings,
    schema: Schema,
    gate: WriteGate,
    conn: Option<PooledConnection<ConnectionManager<C>>>,
}

impl<C: Backend> PoolSlot<C> {
    pub(crate) fn new(
        pool: &Pool<ConnectionManager<C>>,
        url: &str,
        settings: &ConnectionSettings,
        schema: &Schema,
    ) -> Self {
        Self {
            pool: pool.clone(),
            url: url.to_owned(),
            settings: settings.clone(),
            schema: schema.clone(),
            gate: C::write_gate(url),
            conn: None,
        }
    }
}

impl<C: Backend> Slot<C> for PoolSlot<C> {
    fn connection(&mut self) -> Result<&mut C, JobError> {
        if self.conn.is_none() {
            self.conn = Some(
                self.pool
                    .get()
                    .map_err(|error| JobError::away(format!("no connection from the pool: {error}")))?,
            );
        }
        self.conn
            .as_deref_mut()
            .ok_or_else(|| JobError::away("no connection from the pool"))
    }

    fn give_back(&mut self, broken: bool) {
        let Some(mut conn) = self.conn.take() else { return };
        if broken {
            // r2d2 asks the connection whether it is broken; this is how to say yes.
            use diesel::connection::{AnsiTransactionManager, TransactionManager};
            AnsiTransactionManager::transaction_manager_status_mut(&mut *conn).set_in_error();
        }
    }

    fn fresh(&self) -> Result<C, JobError> {
        Ok(C::connect(&self.url, &self.settings)?)
    }

    fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn write_gate(&self) -> &WriteGate {
        &self.gate
    }

    fn permits_savepoint(&self) -> bool {
        false
    }
}
