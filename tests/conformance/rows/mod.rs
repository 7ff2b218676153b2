//! Ownership of rows in an application's own table.

use std::time::Duration;

use diesel::prelude::*;
use leasehold::rows::{self, Answer, OwnedRow, RowLease};
pub(crate) use leasehold_tests::issues::*;

pub(crate) use crate::support::*;

mod adopted;
mod claim;
mod commit;
mod fence;
mod from;
mod heartbeat;
mod keeper;
mod kinds;
mod versioned;

/// What queries name; the same on both backends.
pub(crate) mod query {
    diesel::table! { issue (id) { id -> BigInt, desk -> BigInt, title -> Text } }
    diesel::table! { desk (id) { id -> BigInt, open -> Bool } }
    diesel::joinable!(issue -> desk (desk));
    diesel::allow_tables_to_appear_in_same_query!(issue, desk);
}
