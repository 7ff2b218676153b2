//! Several statements that take effect as a whole.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::Error;

use crate::backend::Backend;
use crate::commit::{depth, roll_back_to};

/// Runs `work` in a transaction of its own that will write, or in a savepoint of the caller's; an error undoes it.
pub(crate) fn atomically<C: Backend, T, E: From<Error>>(
    conn: &mut C,
    work: impl FnOnce(&mut C) -> Result<T, E>,
) -> Result<T, E> {
    if depth(conn)? > 0 {
        return conn.transaction(work);
    }
    conn.begin_write()?;
    let done = work(conn).and_then(|value| {
        AnsiTransactionManager::commit_transaction(conn)?;
        Ok(value)
    });
    if done.is_err() {
        roll_back_to(conn, 0);
    }
    done
}
