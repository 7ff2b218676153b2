//! Pause and resume: what is paused is left out of every claim that starts after it.

use leasehold::manage::{self, Scope};
use leasehold::{EnqueueOptions, Job};

use crate::support::*;

/// A note in `queue`.
#[track_caller]
fn note_in<C: Backend>(conn: &mut C, queue: &str) -> i64 {
    let options = EnqueueOptions::new().queue(queue);
    note("n").enqueue_with(conn, &options).unwrap().id()
}

#[track_caller]
fn pause<C: Backend>(conn: &mut C, scope: Scope<'_>) {
    manage::pause(conn, &default_schema(), scope, "ops", "a test").unwrap();
}

#[track_caller]
fn resume<C: Backend>(conn: &mut C, scope: Scope<'_>) -> bool {
    manage::resume(conn, &default_schema(), scope, "ops").unwrap()
}

conformance! {
    fn what_is_paused_is_not_claimed_until_it_is_resumed(db: &mut Db) {
        let mut conn = migrated(db);
        let serves = [served("mail", "note", 1), served("print", "note", 1)];
        for (scope, mail, print) in [
            (Scope::Queue("mail"), 0, 1),
            (Scope::Queue("print"), 1, 0),
            (Scope::Kind("note"), 0, 0),
            (Scope::All, 0, 0),
            // Names of the other sort, and none that is served.
            (Scope::Queue("note"), 1, 1),
            (Scope::Kind("mail"), 1, 1),
            (Scope::Queue(""), 1, 1),
        ] {
            let ids = [note_in(&mut conn, "mail"), note_in(&mut conn, "print")];
            if scope != Scope::Queue("") {
                pause(&mut conn, scope);
            }
            let (rows, _) = claim_served(&mut conn, &serves, 10);
            let claimed = ids.map(|id| i32::from(rows.iter().any(|row| row.id == id)));
            assert_eq!(claimed, [mail, print], "{scope:?}");
            assert_eq!(resume(&mut conn, scope), scope != Scope::Queue(""), "{scope:?}");
            let (rest, _) = claim_served(&mut conn, &serves, 10);
            assert_eq!(rows.len() + rest.len(), 2, "{scope:?}");
        }
    }
}

conformance! {
    fn a_pause_is_listed_with_who_and_why_and_the_newest_one_counts(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        assert_eq!(manage::pauses(&mut conn, &schema).unwrap(), []);
        manage::pause(&mut conn, &schema, Scope::Queue("mail"), "ada", "first").unwrap();
        manage::pause(&mut conn, &schema, Scope::All, "ada", "night").unwrap();
        manage::pause(&mut conn, &schema, Scope::Queue("mail"), "grace", "no\0paper").unwrap();
        let pauses = manage::pauses(&mut conn, &schema).unwrap();
        let listed: Vec<_> = pauses.iter().map(|pause| (pause.scope(), pause.by.as_str(), pause.reason.as_str())).collect();
        assert_eq!(listed[0], (Scope::All, "ada", "night"));
        assert_eq!((listed[1].0, listed[1].1), (Scope::Queue("mail"), "grace"));
        assert!(listed[1].2.starts_with("no") && listed[1].2.ends_with("paper"), "{listed:?}");
        assert!(pauses[0].at.elapsed().unwrap().as_secs() < 60);
        assert!(resume(&mut conn, Scope::All));
        assert!(!resume(&mut conn, Scope::All));
        assert_eq!(manage::pauses(&mut conn, &schema).unwrap().len(), 1);
    }
}

conformance! {
    fn a_pause_is_part_of_the_callers_transaction(db: &mut Db) {
        let mut conn = migrated(db);
        conn.begin_test_transaction().unwrap();
        pause(&mut conn, Scope::All);
        drop(conn);
        let mut conn = open(db);
        note_in(&mut conn, "mail");
        assert_eq!(claim_served(&mut conn, &[served("mail", "note", 1)], 10).0.len(), 1);
    }
}

conformance! {
    fn a_claimed_job_is_renewed_and_finished_through_a_pause(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = claimed(&mut conn);
        pause(&mut conn, Scope::All);
        assert_eq!(conn.heartbeat(&default_schema(), &[fence]).unwrap().len(), 1);
        assert_eq!(conn.finish(&default_schema(), &[fence]).unwrap(), [fence.id]);
    }
}

conformance! {
    fn what_is_paused_is_counted_apart_and_is_not_due(db: &mut Db) {
        let mut conn = migrated(db);
        let serves = [served("mail", "note", 1), served("print", "note", 1)];
        for queue in ["mail", "mail", "print"] {
            note_in(&mut conn, queue);
        }
        let later = EnqueueOptions::new().queue("mail").delay(std::time::Duration::from_secs(60));
        note("later").enqueue_with(&mut conn, &later).unwrap();
        pause(&mut conn, Scope::Queue("mail"));
        let waiting = conn.waiting(&default_schema(), &serves, 1000).unwrap();
        assert_eq!((waiting.ready, waiting.paused, waiting.scheduled, waiting.next_due_ms), (1, 2, 1, None));
        assert_eq!(claim_served(&mut conn, &serves, 10).0.len(), 1);
        // Nothing that others might have locked: a claimer waits for a change, and does not look again at once.
        let found = leasehold::__private::claim(&mut conn, &default_schema(), &request(&serves, 10)).unwrap();
        assert!(matches!(found, Found::Empty(waiting) if waiting.paused == 2 && waiting.running == 1), "{found:?}");
        resume(&mut conn, Scope::Queue("mail"));
        let waiting = conn.waiting(&default_schema(), &serves, 1000).unwrap();
        assert_eq!((waiting.ready, waiting.paused, waiting.scheduled), (2, 0, 1));
        assert!(waiting.next_due_ms.is_some());
    }
}
