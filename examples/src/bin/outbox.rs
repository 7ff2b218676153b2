//! Events that are there if the transaction is, delivered in the order of their keys, and applied once.

#![expect(clippy::print_stdout, reason = "the example's output")]

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use diesel::prelude::*;
use leasehold::outbox::{self, DeliverError, Delivery, Event, Relay};
use leasehold::{Backoff, Schema, Worker, inbox};

diesel::table! {
    /// Orders.
    orders (id) {
        /// Its number.
        id -> Integer,
        /// How far it is.
        state -> Text,
    }
}

diesel::table! {
    /// What the consumer makes of the events.
    bookings (order_id, text) {
        /// The order's number.
        order_id -> Integer,
        /// How far the order was.
        text -> Text,
    }
}

/// Moves an order on, and emits the event that says so.
fn advance(conn: &mut SqliteConnection, order: i32, state: &str) -> Result<(), Box<dyn Error>> {
    conn.immediate_transaction(|tx| {
        diesel::replace_into(orders::table)
            .values((orders::id.eq(order), orders::state.eq(state)))
            .execute(tx)?;
        let event = Event::new("orders", &(order, state)).key(format!("order-{order}"));
        outbox::emit(tx, &Schema::default(), &event.max_attempts(3))?;
        if state == "lost" {
            return Err("a later check fails".into());
        }
        Ok(())
    })
}

/// A consumer with an inbox in its own transaction. It is sent each event, some of them twice.
fn book(conn: &mut SqliteConnection, delivery: &Delivery<'_>) -> Result<(), DeliverError> {
    let (order, text): (i32, String) = delivery.payload()?;
    if text == "returned" {
        return Err(DeliverError::dead("nobody knows how to book that"));
    }
    let is_new = conn.immediate_transaction(|tx| {
        let is_new = inbox::accept(tx, &Schema::default(), "bookkeeping", delivery.event_id())?;
        if is_new {
            diesel::insert_into(bookings::table)
                .values((bookings::order_id.eq(order), bookings::text.eq(&text)))
                .execute(tx)?;
        }
        Ok::<_, inbox::InboxError>(is_new)
    })?;
    println!(
        "  order {order} {text}: {}",
        if is_new { "booked" } else { "booked already" }
    );
    if text == "paid" && delivery.attempt() == 1 {
        // Its effect is there, and the answer is lost on its way.
        return Err(DeliverError::retry("the connection broke"));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_folder, url, mut conn) = leasehold_examples::temporary_database()?;
    diesel::sql_query("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)").execute(&mut conn)?;
    diesel::sql_query("CREATE TABLE bookings (order_id INTEGER NOT NULL, text TEXT NOT NULL)").execute(&mut conn)?;

    for (order, state) in [
        (1, "placed"),
        (1, "paid"),
        (1, "sent"),
        (2, "returned"),
        (2, "closed"),
        (1, "lost"),
    ] {
        match advance(&mut conn, order, state) {
            Ok(()) => println!("order {order} {state}"),
            Err(error) => println!("order {order} {state}: rolled back, {error}"),
        }
    }

    let consumer = Mutex::new(SqliteConnection::establish(&url)?);
    let relay = Relay::new(move |delivery: &Delivery<'_>| {
        book(&mut consumer.lock().unwrap_or_else(PoisonError::into_inner), delivery)
    });
    // One at a time, so that the output is always the same.
    let relay = relay.batch(1).backoff(Backoff::fixed(Duration::from_secs(1)));
    let summary = Worker::<SqliteConnection, _>::new(&url, ())
        .relay_with("orders", relay)
        .run_until_empty()?;
    println!("{} delivered, {} dead", summary.counts.delivered, summary.counts.dead);

    for event in outbox::dead(&mut conn, &Schema::default(), None, 0, 10)? {
        println!("dead: {} {}: {}", event.topic, event.payload, event.error);
    }
    let booked: Vec<(i32, String)> = bookings::table.load(&mut conn)?;
    println!("{} bookings", booked.len());
    Ok(())
}
