//! What a claim says: rows, nothing due, all locked, nothing at all; and where it is refused.

use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::result::Error;
use leasehold::{EnqueueOptions, Job};
use uuid::Uuid;

use crate::claim::{Call, ids, notes_served};
use crate::fence::put_back;
use crate::support::*;

conformance!(
    fn a_claim_inside_a_transaction_is_refused_and_writes_nothing(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("").enqueue(&mut conn).unwrap().id();
        let before = row(db, id);
        let serves = notes_served();
        let refused = conn
            .transaction(|tx| {
                let refused = claim(tx, &default_schema(), &request(&serves, 1)).unwrap_err();
                Ok::<_, Error>(refused)
            })
            .unwrap();
        assert!(matches!(refused, Error::QueryBuilderError(_)), "{refused}");
        assert!(refused.to_string().contains("must be committed before work starts"));
        assert_eq!(row(db, id), before);
        let found = claim(&mut conn, &default_schema(), &request(&serves, 1)).unwrap();
        assert!(matches!(found, Found::Claimed(rows) if ids(&rows) == [id]));
    }
);

conformance!(
    fn a_claim_that_takes_nothing_says_what_is_there(db: &mut Db) {
        let mut conn = migrated(db);
        let (schema, serves) = (default_schema(), notes_served());
        Call {}.enqueue(&mut conn).unwrap();
        let found = claim(&mut conn, &schema, &request(&serves, 5)).unwrap();
        assert!(
            matches!(found, Found::Empty(waiting) if waiting == Waiting::default()),
            "{found:?}"
        );

        claimed_many(&mut conn, 2);
        let found = claim(&mut conn, &schema, &request(&serves, 5)).unwrap();
        let running = Waiting {
            running: 2,
            ..Waiting::default()
        };
        assert!(
            matches!(found, Found::Empty(waiting) if waiting == running),
            "{found:?}"
        );

        for minutes in [30, 10, 20] {
            let later = EnqueueOptions::new().delay(Duration::from_secs(60 * minutes));
            note("later").enqueue_with(&mut conn, &later).unwrap();
        }
        let found = claim(&mut conn, &schema, &request(&serves, 5)).unwrap();
        let Found::NotDue { next, waiting } = found else {
            panic!("{found:?}")
        };
        assert!(is_about(next, Duration::from_secs(600)), "{next:?}");
        assert_eq!((waiting.ready, waiting.running, waiting.scheduled), (0, 2, 3));

        db.set_time("leasehold.jobs", "run_at", -60_000, "CAST(scheduled AS integer) = 1");
        let found = claim(&mut conn, &schema, &request(&serves, 5)).unwrap();
        assert!(
            matches!(
                found,
                Found::NotDue {
                    next: Duration::ZERO,
                    ..
                }
            ),
            "{found:?}"
        );

        let due = note("due").enqueue(&mut conn).unwrap().id();
        let found = claim(&mut conn, &schema, &request(&serves, 5)).unwrap();
        assert!(matches!(found, Found::Claimed(rows) if ids(&rows) == [due]));
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn what_others_have_locked_is_stepped_over_and_is_not_an_empty_queue(db: &mut Db) {
        let mut conn = migrated(db);
        let (schema, serves) = (default_schema(), notes_served());
        let [first, second] = ["1", "2"].map(|text| note(text).enqueue(&mut conn).unwrap().id());
        let mut other = open(db);
        other
            .transaction(|tx| {
                assert!(tx.lock_ownership(&schema, first)?.is_some());
                assert_eq!(ids(&claim_served(&mut conn, &serves, 2).0), [second]);
                let found = claim(&mut conn, &schema, &request(&serves, 2))?;
                assert!(matches!(found, Found::AllLocked(waiting) if waiting.ready == 1 && waiting.running == 1));
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(ids(&claim_served(&mut conn, &serves, 2).0), [first]);
    }
);

conformance!(
    fn a_claim_whose_answer_was_lost_is_found_by_its_token(db: &mut Db) {
        let mut conn = migrated(db);
        claimed_many(&mut conn, 2);
        for _ in 0..3 {
            note("lost").enqueue(&mut conn).unwrap();
        }
        let (rows, token) = claim_served(&mut conn, &notes_served(), 10);
        let mut found = conn.find_claimed(&default_schema(), token).unwrap();
        found.sort_by_key(|row| row.id);
        // The clock has gone on.
        for (found, row) in found.iter_mut().zip(&rows) {
            assert!(found.waited_ms >= row.waited_ms, "{found:?}");
            found.waited_ms = row.waited_ms;
        }
        assert_eq!(format!("{found:?}"), format!("{rows:?}"));
        assert!(conn.find_claimed(&default_schema(), Uuid::new_v4()).unwrap().is_empty());
        // What was given up since is not the caller's any more, though the row keeps the token.
        conn.put_back(&default_schema(), &fence_of(&rows[0], token), &put_back())
            .unwrap();
        conn.finish(&default_schema(), &[fence_of(&rows[1], token)]).unwrap();
        assert_eq!(ids(&conn.find_claimed(&default_schema(), token).unwrap()), [rows[2].id]);
    }
);

conformance!(
    /// The runner of tests claims in a test's transaction; so must the statement itself.
    fn a_claim_that_is_rolled_back_was_never_made(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("").enqueue(&mut conn).unwrap().id();
        let before = row(db, id);
        conn.begin_write().unwrap();
        assert_eq!(claim_notes(&mut conn).len(), 1);
        AnsiTransactionManager::rollback_transaction(&mut conn).unwrap();
        assert_eq!(row(db, id), before);
    }
);

conformance!(
    fn a_look_at_what_waits_counts_no_more_of_a_state_than_it_is_asked_to(db: &mut Db) {
        let mut conn = migrated(db);
        claimed_many(&mut conn, 4);
        let later = EnqueueOptions::new().delay(Duration::from_secs(600));
        for options in [EnqueueOptions::new(), later] {
            Job::enqueue_all(&vec![note(""); 4], &mut conn, &options).unwrap();
        }
        let mut counts = |at_most| {
            let waiting = conn.waiting(&default_schema(), &notes_served(), at_most).unwrap();
            assert!(waiting.next_due_ms.unwrap() > 500_000);
            (waiting.ready, waiting.running, waiting.scheduled)
        };
        assert_eq!(counts(3), (3, 3, 3));
        assert_eq!(counts(100), (4, 4, 4));
    }
);
