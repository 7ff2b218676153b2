//! The outbox: the event is in the transaction, may be delivered twice, and the consumer knows it by its id.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::Connection as _;
use leasehold::outbox::{self, Delivery, Event, Relay};
use leasehold::{Schema, Worker, inbox};
use leasehold_tests::{TestDb, conformance, eventually};
use uuid::Uuid;

use crate::jobs::{SOON, migrated};

conformance! {
    fn s0_27_an_event_is_there_with_the_business_row_or_not_at_all(db: &mut Db) {
        let mut conn = migrated(db);
        let rows = "SELECT (SELECT count(*) FROM business) + 10 * (SELECT count(*) FROM leasehold.outbox_events)";
        for (commits, expected) in [(false, 0), (true, 11)] {
            let done = conn.transaction(|tx| {
                diesel::connection::SimpleConnection::batch_execute(tx, "INSERT INTO business VALUES ('me')")?;
                outbox::emit(tx, &Schema::default(), &Event::new("t", &1)).unwrap();
                if commits { Ok(()) } else { Err(diesel::result::Error::RollbackTransaction) }
            });
            assert_eq!((done.is_ok(), db.integer(rows)), (commits, expected));
        }
    }
}

conformance! {
    /// As a relay that dies between sending and marking: what it has sent is sent again, under the same id.
    fn s0_27_an_event_that_was_sent_and_not_marked_is_sent_again_and_applied_once(db: &mut Db) {
        let mut conn = migrated(db);
        let event = outbox::emit(&mut conn, &Schema::default(), &Event::new("t", &1)).unwrap();
        let (sent, sends) = channel::<Uuid>();
        let (sent, stuck) = (Mutex::new(sent), Mutex::new(Some(channel::<()>())));
        let consumer = Mutex::new(db.connect());
        let applied = Arc::new(Mutex::new(Vec::new()));
        let relay = {
            let applied = Arc::clone(&applied);
            Relay::new(move |delivery: &Delivery<'_>| {
                let mut conn = consumer.lock().unwrap();
                let is_new = conn.transaction(|tx| {
                    let is_new = inbox::accept(tx, &Schema::default(), "test", delivery.event_id())?;
                    diesel::connection::SimpleConnection::batch_execute(
                        tx,
                        if is_new { "INSERT INTO business VALUES ('consumer')" } else { "SELECT 1" },
                    )?;
                    Ok::<_, inbox::InboxError>(is_new)
                })?;
                drop(conn);
                applied.lock().unwrap().push(is_new);
                sent.lock().unwrap().send(delivery.event_id()).unwrap();
                // The first one never gets to marking it.
                let first = stuck.lock().unwrap().take();
                if let Some((_keep, never)) = first {
                    let _ = never.recv();
                }
                Ok(())
            })
        };
        let start = |relay: Relay| {
            let worker = Worker::<Connection, ()>::new(db.url(), ()).poll_interval(Duration::from_millis(20));
            worker.relay_with("t", relay.threads(2)).start().unwrap()
        };
        let running = start(relay);
        assert_eq!(sends.recv_timeout(SOON).unwrap(), event);
        db.set_time("leasehold.outbox_events", "lease_until", -1, "state = 'running'");
        assert_eq!(sends.recv_timeout(SOON).unwrap(), event);
        eventually(SOON, "it is marked", || db.integer("SELECT count(*) FROM leasehold.outbox_events") == 0);
        assert_eq!(*applied.lock().unwrap(), [true, false]);
        assert_eq!(db.integer("SELECT count(*) FROM business"), 1);
        drop(running);
    }
}
