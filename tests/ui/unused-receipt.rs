#![deny(warnings)]

use diesel::SqliteConnection;
use leasehold::{JobError, LeaseGuard};

pub fn ends_well(lease: LeaseGuard<'_, SqliteConnection>) -> Result<(), JobError> {
    lease.finish()?;
    Ok(())
}

pub fn hopes_so(lease: LeaseGuard<'_, SqliteConnection>) {
    lease.strict();
}

fn main() {}
