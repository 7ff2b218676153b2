use std::marker::PhantomData;

use diesel::SqliteConnection;
use leasehold::{LeaseGuard, Outcome, Receipt};

fn receipt<'j>() -> Outcome<'j> {
    Ok(Receipt { brand: PhantomData })
}

fn guard<'j>() -> Outcome<'j> {
    LeaseGuard::<SqliteConnection> { strict: false }.finish()
}

fn main() {}
