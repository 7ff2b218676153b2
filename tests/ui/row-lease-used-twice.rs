//! The commit of a row gives the lease up.

use diesel::SqliteConnection;
use leasehold::rows::{OwnedRow, RowLease, RowOn};

fn twice<R: OwnedRow + RowOn<SqliteConnection>>(lease: RowLease<R>, conn: &mut SqliteConnection) {
    let _ = lease.commit(conn, "DONE", |_| Ok(()));
    let _ = lease.commit(conn, "DONE", |_| Ok(()));
}

fn main() {}
