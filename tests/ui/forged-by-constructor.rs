#![allow(unreachable_code)]

use diesel::SqliteConnection;
use leasehold::{LeaseGuard, Outcome, Receipt};

fn receipt<'j>() -> Outcome<'j> {
    Ok(Receipt::new())
}

fn default_receipt<'j>() -> Outcome<'j> {
    Ok(Receipt::default())
}

fn guard<'j>() -> Outcome<'j> {
    LeaseGuard::<SqliteConnection>::new(todo!(), todo!()).finish()
}

fn main() {}
