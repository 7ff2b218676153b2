//! What is done after the answer.

use std::time::Duration;

use newsroom::desk::{Desk, Settings};
use newsroom::generator::Count;
use newsroom::trigger;

use crate::support::*;

conformance!(
    fn s4_07_each_occupied_issue_gets_its_article_and_no_other_one(db: &mut Db) {
        let service = start(db, 6, Duration::from_millis(20));
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id = 1");
        assert_eq!(ask(&service.url, &[1, 2, 3, 99]).0, 202);
        eventually(SOON, "both are written", || with_status(db, "DONE") == 3);
        let written = db.texts("SELECT CAST(issue_id AS text) FROM article ORDER BY issue_id");
        assert_eq!(written, [Some("2".to_owned()), Some("3".to_owned())]);
        assert_eq!(with_status(db, "PENDING"), 3);
        let counts = service.generator.counts();
        let once = Count { calls: 1, effects: 1 };
        assert_eq!(counts.len(), 2);
        assert_eq!((&counts["issue:2"], &counts["issue:3"]), (&once, &once));
        assert!(
            db.text("SELECT text FROM article WHERE issue_id = 2")
                .unwrap()
                .starts_with("Council votes")
        );
    }
);

conformance!(
    fn s4_14_an_article_that_cannot_be_written_leaves_a_failed_issue_that_may_be_asked_for_again(db: &mut Db) {
        // Nothing listens there.
        let desk = Desk::<Connection>::open(&settings(db, "http://127.0.0.1:1/", 1)).unwrap();
        assert_eq!(desk.occupy(&[1]).unwrap().occupied, [1]);
        eventually(SOON, "it has failed", || with_status(db, "FAILED") == 1);
        let service = start(db, 1, Duration::ZERO);
        assert_eq!(ask(&service.url, &[1]).0, 202);
        eventually(SOON, "it is written", || with_status(db, "DONE") == 1);
        assert_eq!(articles(db), 1);
    }
);

conformance!(
    fn s4_09_an_issue_of_a_process_that_died_is_written_after_its_lease(db: &mut Db) {
        let service = start(db, 1, Duration::ZERO);
        // A desk that claims and never writes, as one that is gone.
        let answers = leasehold::rows::claim::<<Connection as newsroom::tables::Press>::Issue, _>(
            &mut db.connect(),
            &[1],
            Duration::from_secs(60),
        );
        drop(answers.unwrap());
        for _ in 0..2 {
            assert_eq!(ask(&service.url, &[1]).0, 409, "within the lease");
        }
        db.set_time("issue", "lease_until", -1000, "id = 1");
        assert_eq!(ask(&service.url, &[1]).0, 202);
        eventually(SOON, "it is written", || with_status(db, "DONE") == 1);
        assert_eq!(articles(db), 1);
    }
);

conformance!(
    fn s4_13_the_schedule_asks_for_all_that_is_left_while_people_ask_too(db: &mut Db) {
        let service = start(db, 40, Duration::from_millis(5));
        let every_second = "* * * * * *";
        let other = Desk::<Connection>::open(&Settings {
            writers: 2,
            ..settings(db, service.generator.url(), 0)
        });
        // Two processes have the same schedule.
        let running = [
            trigger::start(&db.url(), service.desk.clone(), every_second).unwrap(),
            trigger::start(&db.url(), other.unwrap(), every_second).unwrap(),
        ];
        let ids: Vec<i64> = (1..=30).collect();
        eventually(SOON, "all are written", || {
            let (status, answer) = ask(&service.url, &ids);
            assert!(status == 202 || status == 409, "{status}: {answer}");
            with_status(db, "DONE") == 40
        });
        assert_eq!(articles(db), 40);
        assert_eq!(db.integer("SELECT count(DISTINCT issue_id) FROM article"), 40);
        let counts = service.generator.counts();
        assert!(
            counts.len() == 40 && counts.values().all(|count| *count == Count { calls: 1, effects: 1 }),
            "{counts:?}"
        );
        drop(running);
    }
);
