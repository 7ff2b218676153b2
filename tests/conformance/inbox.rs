//! An event is accepted once by each consumer, in the transaction that applies it.

use std::sync::mpsc;
use std::time::Duration;

use diesel::result::Error;
use leasehold::Backend;
use leasehold::inbox::{self, InboxError};
use uuid::Uuid;

use crate::support::*;

fn accept<C: Backend>(tx: &mut C, consumer: &str, event: Uuid) -> bool {
    inbox::accept(tx, &default_schema(), consumer, event).unwrap()
}

conformance!(
    fn an_event_is_accepted_once_by_each_consumer(db: &mut Db) {
        let mut conn = migrated(db);
        let (event, other) = (Uuid::new_v4(), Uuid::new_v4());
        let mut accepted = |consumer: &str, event| conn.transaction(|tx| Ok::<_, Error>(accept(tx, consumer, event)));
        assert_eq!(accepted("books", event), Ok(true));
        assert_eq!(accepted("books", event), Ok(false));
        assert_eq!(accepted("stock", event), Ok(true));
        assert_eq!(accepted("books", other), Ok(true));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.inbox_events"), 3);
    }
);

conformance!(
    fn a_transaction_that_rolls_back_has_not_accepted(db: &mut Db) {
        let mut conn = migrated(db);
        let event = Uuid::new_v4();
        let rolled_back = conn.transaction(|tx| {
            assert!(accept(tx, "books", event));
            // The same transaction knows it.
            assert!(!accept(tx, "books", event));
            Err::<(), _>(Error::RollbackTransaction)
        });
        assert!(rolled_back.is_err());
        assert_eq!(
            conn.transaction(|tx| Ok::<_, Error>(accept(tx, "books", event))),
            Ok(true)
        );
    }
);

conformance!(
    fn outside_of_a_transaction_it_is_refused_and_nothing_is_recorded(db: &mut Db) {
        let mut conn = migrated(db);
        let refused = inbox::accept(&mut conn, &default_schema(), "books", Uuid::new_v4());
        assert!(matches!(refused, Err(InboxError::NoTransaction)), "{refused:?}");
        conn.transaction(|tx| {
            let refused = inbox::accept(tx, &default_schema(), "a\0b", Uuid::new_v4());
            assert!(matches!(refused, Err(InboxError::Consumer(_))), "{refused:?}");
            Ok::<_, Error>(())
        })
        .unwrap();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.inbox_events"), 0);
    }
);

conformance!(
    /// Both ways in which the first can end.
    fn a_second_one_at_the_same_time_waits_for_the_first(db: &mut Db) {
        let (mut first, mut second) = (migrated(db), open(db));
        for commits in [true, false] {
            let event = Uuid::new_v4();
            let (asks, asked) = mpsc::channel();
            let answer = std::thread::scope(|scope| {
                let mut waiting = None;
                let ended = first.transaction(|tx| {
                    assert!(accept(tx, "books", event));
                    waiting = Some(scope.spawn(|| {
                        asks.send(()).unwrap();
                        // As a program should: SQLite's deferred transaction takes its lock with the first write.
                        second.begin_write()?;
                        let answer = accept(&mut second, "books", event);
                        second.batch_execute("ROLLBACK").map(|()| answer)
                    }));
                    asked.recv().unwrap();
                    // Whether it waits already or not, its answer has to be the same.
                    std::thread::sleep(Duration::from_millis(20));
                    if commits {
                        Ok(())
                    } else {
                        Err(Error::RollbackTransaction)
                    }
                });
                assert_eq!(ended.is_ok(), commits);
                waiting.unwrap().join().unwrap().unwrap()
            });
            assert_eq!(answer, !commits);
            second = open(db);
        }
    }
);

conformance!(
    fn a_purge_forgets_what_is_old_and_no_more(db: &mut Db) {
        let mut conn = migrated(db);
        let events: Vec<Uuid> = (0..10).map(|_| Uuid::new_v4()).collect();
        conn.transaction(|tx| {
            events.iter().for_each(|event| assert!(accept(tx, "books", *event)));
            Ok::<_, Error>(())
        })
        .unwrap();
        let old = format!("event_id IN ('{}', '{}', '{}')", events[0], events[1], events[2]);
        db.set_time("leasehold.inbox_events", "at", -3_600_000, &old);
        assert_eq!(conn.purge_inbox(&default_schema(), 1_800_000, 2).unwrap(), 2);
        let purged = inbox::purge(&mut conn, &default_schema(), Duration::from_secs(1800)).unwrap();
        assert_eq!(purged, 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.inbox_events"), 7);
    }
);
