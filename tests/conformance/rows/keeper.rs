//! Leases that are renewed in the background.

use leasehold::rows::Keeper;
use leasehold_tests::eventually;

use super::*;

/// Long enough for a thread that is kept from running now and then.
const SHORT: Duration = Duration::from_secs(6);

conformance!(
    fn a_kept_lease_outlasts_its_length_and_a_dropped_one_ends(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3]);
        let keeper = Keeper::<Connection>::start(db.url()).unwrap();
        let mut leases = Vec::new();
        for (id, answer) in rows::claim::<Issue, _>(&mut conn, &[1, 2, 3], SHORT).unwrap() {
            let lease = answer.claimed().unwrap();
            assert_eq!(*lease.id(), id);
            keeper.keep(&lease);
            leases.push(lease);
        }
        let first_end =
            |db: &mut Db, id| db.text(&format!("SELECT CAST(lease_until AS text) FROM issue WHERE id = {id}"));
        let before = first_end(db, 1);
        eventually(MINUTE, "each was renewed", || {
            (1..=3).all(|id| first_end(db, id) != before)
        });
        let dropped = leases.pop().unwrap();
        drop(dropped);
        let committed = leases.pop().unwrap();
        committed.commit(&mut conn, "DONE", |_| Ok(())).unwrap();
        eventually(MINUTE, "the dropped one ends", || {
            texts(&claim_ids::<Issue, _>(&mut conn, &[3])) == ["3 claimed"]
        });
        // By then the kept one would have ended as well.
        assert_eq!(
            texts(&claim_ids::<Issue, _>(&mut conn, &[1, 2])),
            ["1 running", "2 DONE"]
        );
        assert!(!leases[0].is_lost());
        drop(keeper);
        let kept = leases.pop().unwrap();
        kept.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
        assert_eq!(articles(db), 1);
    }
);

conformance!(
    fn a_keeper_tells_of_a_lease_that_was_lost(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2]);
        let keeper = Keeper::<Connection>::start(db.url()).unwrap();
        let answers = rows::claim::<Issue, _>(&mut conn, &[1, 2], SHORT).unwrap();
        let leases: Vec<_> = answers
            .into_iter()
            .map(|(_, answer)| answer.claimed().unwrap())
            .collect();
        // Taken away before the first heartbeat.
        db.sql("UPDATE issue SET generation = 2, processing_status = 'PENDING' WHERE id = 1");
        for lease in &leases {
            keeper.keep(lease);
        }
        eventually(MINUTE, "the heartbeat found out", || {
            matches!(leases[0].check(), Err(rows::RowRefusal::Lost { generation: 2 }))
        });
        assert!(!leases[1].is_lost());
        assert_eq!(issue(db, 1), "PENDING/2 token until");
    }
);
