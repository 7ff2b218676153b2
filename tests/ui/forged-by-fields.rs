#![allow(unreachable_code)]

use std::marker::PhantomData;

use diesel::SqliteConnection;
use leasehold::{LeaseGuard, Outcome, Receipt};

fn receipt<'j>() -> Outcome<'j> {
    Ok(Receipt { decision: todo!(), brand: PhantomData })
}

fn guard<'j>() -> Outcome<'j> {
    LeaseGuard::<SqliteConnection> { slot: todo!(), held: todo!(), strict: false, brand: PhantomData }.finish()
}

fn main() {}
