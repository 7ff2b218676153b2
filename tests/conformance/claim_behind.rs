//! The place behind which a claim begins.

use leasehold::__private::Place;
#[cfg(feature = "postgres")]
use leasehold::EnqueueOptions;
use leasehold::Job;

use crate::claim::{ids, notes_served};
use crate::support::*;

/// Claims up to `limit` jobs behind `places`; their ids.
fn claim_behind<C: Backend>(conn: &mut C, serves: &[Served], behind: &[Place], limit: i64) -> Vec<i64> {
    let request = ClaimRequest {
        behind,
        ..request(serves, limit)
    };
    let mut rows = conn.claim(&default_schema(), &request).unwrap();
    rows.sort_by_key(|row| row.id);
    ids(&rows)
}

/// The place of a job, on PostgreSQL.
#[cfg(feature = "postgres")]
fn place<D: TestDb>(db: &mut D, id: i64) -> Place {
    let rank = db.integer(&format!("SELECT -priority FROM leasehold.jobs WHERE id = {id}"));
    let run_at = format!(
        "SELECT CAST(round(extract(epoch FROM run_at) * 1000000) - 946684800000000 AS bigint) FROM leasehold.jobs WHERE id = {id}"
    );
    Place {
        rank: i32::try_from(rank).unwrap(),
        run_at: db.integer(&run_at),
        id,
    }
}

conformance!(
    /// The same priority and time but another id, another time, another priority; and the one at the place itself.
    #[skip(
        sqlite,
        "claims on SQLite begin at the front each time: what is claimed leaves no entries in its index"
    )]
    fn only_what_is_behind_the_place_is_claimed(db: &mut Db) {
        let mut conn = migrated(db);
        let now = std::time::SystemTime::now();
        let mut enqueue = |priority: i16, minutes_ago: u64| {
            let at = now - std::time::Duration::from_secs(60 * minutes_ago);
            let options = EnqueueOptions::new().priority(priority).run_at(at);
            note("").enqueue_with(&mut conn, &options).unwrap().id()
        };
        let same = [enqueue(2, 5), enqueue(2, 5), enqueue(2, 5)];
        let (earlier, later) = (enqueue(2, 9), enqueue(2, 1));
        let (higher, lower) = (enqueue(3, 1), enqueue(-1, 9));
        let at = place(db, same[1]);
        let behind = claim_behind(&mut conn, &notes_served(), &[at], 10);
        assert_eq!(behind, [same[2], later, lower]);
        assert!(claim_behind(&mut conn, &notes_served(), &[at], 10).is_empty());
        let front = claim_behind(&mut conn, &notes_served(), &[Place::FRONT], 10);
        assert_eq!(front, [same[0], same[1], earlier, higher]);
    }
);

conformance!(
    #[skip(
        sqlite,
        "claims on SQLite begin at the front each time: what is claimed leaves no entries in its index"
    )]
    fn each_of_what_is_served_has_a_place_of_its_own_and_without_one_begins_at_the_front(db: &mut Db) {
        let mut conn = migrated(db);
        let serves = ["a", "b", "c"].map(|queue| served(queue, "note", 1));
        let mut first = |queue: &str| {
            let options = EnqueueOptions::new().queue(queue);
            [(); 3].map(|()| note("").enqueue_with(&mut conn, &options).unwrap().id())
        };
        let (a, b, c) = (first("a"), first("b"), first("c"));
        let places = [place(db, a[1]), Place::FRONT, place(db, c[0])];
        assert_eq!(
            claim_behind(&mut conn, &serves, &places, 100),
            [a[2], b[0], b[1], b[2], c[1], c[2]]
        );
        // A list that is too short stands for the front.
        assert_eq!(claim_behind(&mut conn, &serves, &places[..1], 100), [c[0]]);
        assert_eq!(claim_behind(&mut conn, &serves, &[], 100), a[..2]);
    }
);

conformance!(
    /// The limit holds over all of them, and the best of what is behind is taken, however late in the list.
    #[skip(
        sqlite,
        "claims on SQLite begin at the front each time: what is claimed leaves no entries in its index"
    )]
    fn of_what_is_behind_the_places_the_best_are_claimed(db: &mut Db) {
        let mut conn = migrated(db);
        let serves = ["a", "b"].map(|queue| served(queue, "note", 1));
        let mut enqueue = |queue: &str, priority: i16| {
            let options = EnqueueOptions::new().queue(queue).priority(priority);
            note("").enqueue_with(&mut conn, &options).unwrap().id()
        };
        let a = [9, 8, 1].map(|priority| enqueue("a", priority));
        let b = [7, 6, 5].map(|priority| enqueue("b", priority));
        let places = [place(db, a[1]), place(db, b[0])];
        assert_eq!(claim_behind(&mut conn, &serves, &places, 2), b[1..]);
        assert_eq!(claim_behind(&mut conn, &serves, &places, 2), [a[2]]);
    }
);

conformance!(
    #[skip(postgres, "claims on PostgreSQL begin behind the place that they are given")]
    fn a_place_hides_nothing_where_claims_begin_at_the_front(db: &mut Db) {
        let mut conn = migrated(db);
        let id = note("").enqueue(&mut conn).unwrap().id();
        let end = Place {
            rank: i32::MAX,
            run_at: i64::MAX,
            id: i64::MAX,
        };
        assert_eq!(claim_behind(&mut conn, &notes_served(), &[end], 10), [id]);
    }
);
