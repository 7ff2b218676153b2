//! A job is enqueued with the caller's own writes, or not at all.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use leasehold::testing::enqueued;
use leasehold::{Handler, Job, LeaseGuard, Outcome, Worker};
use serde::{Deserialize, Serialize};

diesel::table! {
    /// What was ordered.
    orders (item) {
        /// One order for each.
        item -> Text,
        /// Set by the job.
        confirmed -> Bool,
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "confirm-order")]
struct ConfirmOrder {
    item: String,
}

impl Handler<SqliteConnection> for ConfirmOrder {
    fn run<'j>(self, lease: LeaseGuard<'j, SqliteConnection>, _: &()) -> Outcome<'j> {
        lease.commit(|tx| {
            diesel::update(orders::table.find(&self.item))
                .set(orders::confirmed.eq(true))
                .execute(tx)?;
            Ok(())
        })
    }
}

fn place_order(conn: &mut SqliteConnection, item: &str, in_stock: bool) -> Result<(), Box<dyn Error>> {
    conn.immediate_transaction(|tx| {
        let order = (orders::item.eq(item), orders::confirmed.eq(false));
        diesel::insert_into(orders::table).values(order).execute(tx)?;
        ConfirmOrder { item: item.to_owned() }.enqueue(tx)?;
        // What shows only now takes both with it.
        if in_stock { Ok(()) } else { Err("out of stock".into()) }
    })
}

fn show(conn: &mut SqliteConnection) -> Result<(), Box<dyn Error>> {
    let placed: Vec<(String, bool)> = orders::table.select((orders::item, orders::confirmed)).load(conn)?;
    println!(
        "  orders: {placed:?}, jobs waiting: {}",
        enqueued::<ConfirmOrder>(conn)?.len()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    conn.batch_execute("CREATE TABLE orders (item TEXT NOT NULL PRIMARY KEY, confirmed BOOLEAN NOT NULL)")?;

    for (item, in_stock) in [("unicorn", false), ("bicycle", true)] {
        match place_order(&mut conn, item, in_stock) {
            Ok(()) => println!("{item}: committed"),
            Err(error) => println!("{item}: rolled back, {error}"),
        }
        show(&mut conn)?;
    }
    Worker::<SqliteConnection, _>::new(url, ())
        .register::<ConfirmOrder>()
        .run_until_empty()?;
    println!("after the worker");
    show(&mut conn)
}
