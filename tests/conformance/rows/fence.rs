//! Owners that have lost their row.

#[cfg(feature = "postgres")]
use leasehold::rows::CommitError;
use leasehold::rows::{Heartbeat, RowRefusal};

use super::*;

conformance!(
    fn the_owner_before_is_refused_while_the_next_one_holds_the_row(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let zombie = claim_one::<Issue, _>(&mut conn, 1);
        expire(db, 1);
        let owner = claim_one::<Issue, _>(&mut conn, 1);
        let lost = RowRefusal::Lost { generation: 2 };
        assert_eq!(
            zombie.heartbeat(&mut conn, MINUTE).unwrap(),
            Heartbeat::Lost(lost.clone())
        );
        let error = zombie
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap_err();
        assert_eq!(error.refusal(), Some(&lost));
        assert!(error.into_lease().is_none());
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("IN_PROGRESS/2 token until", 0));
        owner.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("DONE/2 token", 1));
    }
);

conformance!(
    fn a_late_owners_failed_write_is_told_as_the_loss_that_it_is(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let zombie = claim_one::<Issue, _>(&mut conn, 1);
        expire(db, 1);
        let owner = claim_one::<Issue, _>(&mut conn, 1);
        owner.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
        // A unique violation of an article that the next owner has written.
        let error = zombie
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap_err();
        let finished = RowRefusal::AlreadyFinished {
            status: "DONE".to_owned(),
        };
        assert_eq!(error.refusal(), Some(&finished), "{error:?}");
    }
);

conformance!(
    fn every_way_to_lose_a_row_is_told_apart(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1, 2, 3, 4, 5, 6]);
        let token = match Db::BACKEND {
            "postgres" => "gen_random_uuid()",
            _ => "'7a0f2a3c-0000-4000-8000-000000000000'",
        };
        for (id, change, refusal) in [
            (1, "DELETE FROM issue WHERE id = 1".to_owned(), RowRefusal::Missing),
            (
                2,
                "UPDATE issue SET processing_status = 'DONE' WHERE id = 2".to_owned(),
                RowRefusal::AlreadyFinished {
                    status: "DONE".to_owned(),
                },
            ),
            // Back to a status that may be claimed by hand, with a generation as each change of ownership has it.
            (
                3,
                "UPDATE issue SET processing_status = 'PENDING', generation = 2 WHERE id = 3".to_owned(),
                RowRefusal::Lost { generation: 2 },
            ),
            (
                4,
                format!("UPDATE issue SET lease_token = {token} WHERE id = 4"),
                RowRefusal::DurabilityLoss { generation: 1 },
            ),
            (
                5,
                "UPDATE issue SET generation = 0 WHERE id = 5".to_owned(),
                RowRefusal::DurabilityLoss { generation: 0 },
            ),
        ] {
            let lease = claim_one::<Issue, _>(&mut conn, id);
            db.sql(&change);
            assert_eq!(
                lease.heartbeat(&mut conn, MINUTE).unwrap(),
                Heartbeat::Lost(refusal.clone()),
                "{change}"
            );
            let error = lease
                .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, id)?))
                .unwrap_err();
            assert_eq!(error.refusal(), Some(&refusal), "{change}");
        }
        assert_eq!(articles(db), 0);
    }
);

conformance!(
    fn a_generation_that_a_database_gives_out_twice_is_no_fence_and_the_token_is(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let forgotten = claim_one::<Issue, _>(&mut conn, 1);
        // A crash forgets the claim, as an older file put back does; the next claim gives out the same generation.
        db.sql(
            "UPDATE issue SET processing_status = 'PENDING', generation = 0, lease_token = NULL, lease_until = NULL",
        );
        let owner = claim_one::<Issue, _>(&mut conn, 1);
        assert_eq!(forgotten.generation(), owner.generation());
        let loss = RowRefusal::DurabilityLoss { generation: 1 };
        assert_eq!(
            forgotten.heartbeat(&mut conn, MINUTE).unwrap(),
            Heartbeat::Lost(loss.clone())
        );
        let error = forgotten
            .commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap_err();
        assert_eq!(error.refusal(), Some(&loss));
        owner.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
        assert_eq!(articles(db), 1);
    }
);

conformance!(
    fn a_lease_that_ended_and_was_not_taken_commits(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let lease = claim_one::<Issue, _>(&mut conn, 1);
        expire(db, 1);
        lease.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
        assert_eq!((issue(db, 1).as_str(), articles(db)), ("DONE/1 token", 1));
    }
);

conformance!(
    #[skip(sqlite, "its one writer never meets another's open write")]
    fn a_claim_that_takes_the_row_while_the_commit_writes_wins(db: &mut Db) {
        type Issue = <Db as Issues>::Issue;
        let mut conn = issues(db, &[1]);
        let late = claim_one::<Issue, _>(&mut conn, 1);
        let mut other = open(db);
        let mut owner = None;
        let error = late.commit(&mut conn, "DONE", |tx| {
            write_article(tx, 1)?;
            expire(db, 1);
            owner = Some(claim_one::<Issue, _>(&mut other, 1));
            Ok(())
        });
        assert!(
            matches!(error, Err(CommitError::Refused(RowRefusal::Lost { generation: 2 }))),
            "{error:?}"
        );
        assert_eq!(articles(db), 0);
        owner
            .unwrap()
            .commit(&mut other, "DONE", |tx| Ok(write_article(tx, 1)?))
            .unwrap();
        assert_eq!(articles(db), 1);
    }
);
