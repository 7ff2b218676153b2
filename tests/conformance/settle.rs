//! Finish, put back, end, release, cancel: what each column becomes.

use leasehold::inspect::State;
use std::time::Duration;

use leasehold::__private::Fence;
use leasehold::Job;
use leasehold::inspect;

use crate::fence::put_back;
use crate::support::*;

fn attempt_error(text: &str) -> Option<AttemptError> {
    Some(AttemptError {
        cause: "error",
        error: text.to_owned(),
    })
}

fn end(state: &'static str) -> End {
    End {
        state,
        reason: Some("because".to_owned()),
        takes_away: false,
        error: None,
    }
}

/// Whether the job left `jobs`, and is in `finished_jobs` with all that it had.
#[track_caller]
fn assert_moved<D: TestDb>(db: &mut D, id: i64, before: Option<std::string::String>) {
    assert!(before.is_some());
    assert_eq!(kept(db, "leasehold.finished_jobs", id), before);
    assert_eq!(row(db, id), None);
    let ended = format!("SELECT count(*) FROM leasehold.finished_jobs WHERE id = {id} AND finished_at >= created_at");
    assert_eq!(db.integer(&ended), 1);
}

/// A job with nothing at its default, claimed.
#[track_caller]
fn claimed_odd<C: Backend>(conn: &mut C) -> Fence {
    let job = NewJob {
        queue: "odd \"queue\"".to_owned(),
        kind: "note".into(),
        version: 1,
        payload: r#"{"b": 1.50,  "a":"é\"\\"}"#.to_owned(),
        priority: -3,
        run_at: RunAt::At(86_400_123),
        max_attempts: 9,
        lease_ms: 77_000,
        idempotency_key: Some("key 'é'".to_owned()),
        remember_ms: 60_000,
        unique_key: Some("unique:odd".to_owned()),
        unique: leasehold::Unique::new().states(&[leasehold::inspect::State::Completed]),
        expires_ms: None,
        limit_key: None,
        limit_rank: 3,
        batch_id: Some(7),
        waits: false,
        awaited: false,
    };
    conn.insert(&default_schema(), &[job]).unwrap();
    let (rows, token) = claim_served(conn, &[served("odd \"queue\"", "note", 1)], 10);
    fence_of(&rows[0], token)
}

conformance!(
    fn an_ended_job_moves_with_all_that_it_had(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = claimed_odd(&mut conn);
        let before = kept(db, "leasehold.jobs", fence.id);
        assert!(before.as_ref().unwrap().contains(r#"{"b": 1.50,  "a":"é\"\\"}"#));
        assert_eq!(conn.finish(&default_schema(), &[fence]).unwrap(), [fence.id]);
        assert_moved(db, fence.id, before);
        assert_eq!(standing(db, fence.id), "completed generation=1 attempt=1");

        for (state, takes_away, generation) in [("discarded", false, 1), ("cancelled", true, 2)] {
            let fence = claimed_odd(&mut conn);
            let before = kept(db, "leasehold.jobs", fence.id);
            let how = End {
                takes_away,
                ..end(state)
            };
            assert_eq!(conn.end(&default_schema(), &fence, &how).unwrap(), 1);
            assert_moved(db, fence.id, before);
            let expected = format!("{state} generation={generation} attempt=1: because");
            assert_eq!(standing(db, fence.id), expected);
        }

        let fence = claimed_odd(&mut conn);
        let before = kept(db, "leasehold.jobs", fence.id);
        assert_eq!(
            conn.end_open(&default_schema(), &[fence.id], true, State::Cancelled, "gone")
                .unwrap(),
            [fence.id]
        );
        assert_moved(db, fence.id, before);

        let fence = claimed_odd(&mut conn);
        let before = kept(db, "leasehold.jobs", fence.id);
        db.sql(&format!(
            "UPDATE leasehold.jobs SET max_attempts = 1 WHERE id = {}",
            fence.id
        ));
        conn.expire_lease(&default_schema(), fence.id).unwrap();
        conn.sweep(&default_schema(), 10).unwrap();
        assert_moved(db, fence.id, before.map(|kept| kept.replace("|9|77000|", "|1|77000|")));
    }
);

conformance!(
    /// An id that was given twice, after a sequence or a file was set back: the newer end counts.
    fn an_id_among_the_finished_jobs_does_not_fail_its_neighbours(db: &mut Db) {
        let mut conn = migrated(db);
        let fences = claimed_many(&mut conn, 3);
        conn.finish(&default_schema(), &[fences[1]]).unwrap();
        let old = fences[1].id;
        db.sql(&format!(
            "UPDATE leasehold.finished_jobs SET id = {} WHERE id = {old}",
            fences[0].id
        ));
        // The statement for many may fail by it as a whole; then they are ended one by one.
        let both = [fences[2], fences[0]];
        match conn.finish(&default_schema(), &both) {
            Ok(finished) => assert_eq!(finished.len(), 2),
            Err(_) => {
                let how = end("completed");
                both.iter()
                    .for_each(|fence| assert_eq!(conn.end(&default_schema(), fence, &how).unwrap(), 1));
            }
        }
        let payload = format!(
            "SELECT CAST(payload AS text) FROM leasehold.finished_jobs WHERE id = {}",
            fences[0].id
        );
        assert_eq!(db.text(&payload).unwrap(), r#"{"text":"0"}"#);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
);

conformance!(
    fn a_job_that_is_put_back_is_ready_with_its_token_and_nothing_else_of_the_lease(db: &mut Db) {
        let mut conn = migrated(db);
        let minute = Duration::from_secs(60);
        for (uses_attempt, takes_away, delay_ms, standing_after) in [
            (true, false, 60_000, "ready generation=1 attempt=1"),
            (false, false, 60_000, "ready generation=1 attempt=0"),
            (true, true, 0, "ready generation=2 attempt=1"),
        ] {
            let fence = claimed_odd(&mut conn);
            let id = fence.id;
            let how = PutBack {
                delay_ms,
                uses_attempt,
                takes_away,
                error: None,
            };
            let fields = |kept: std::string::String| {
                let fields: Vec<std::string::String> = kept.split('|').map(str::to_owned).collect();
                // The run time and the attempt change.
                [&fields[..6], &fields[7..16], &fields[17..]].concat()
            };
            let before = fields(kept(db, "leasehold.jobs", id).unwrap());
            assert_eq!(conn.put_back(&default_schema(), &fence, &how).unwrap(), 1);
            assert_eq!(standing(db, id), standing_after);
            assert_eq!(fields(kept(db, "leasehold.jobs", id).unwrap()), before);
            assert!(is_free(db, id));
            let scheduled = format!("SELECT CAST(scheduled AS integer) FROM leasehold.jobs WHERE id = {id}");
            assert_eq!(db.integer(&scheduled), i64::from(delay_ms > 0));
            if delay_ms > 0 {
                let wait = from_now(db, "leasehold.jobs", "run_at", &format!("id = {id}"));
                assert!(is_about(wait, minute), "{wait:?}");
            }
            db.sql("DELETE FROM leasehold.jobs");
        }
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.job_errors"), 0);
    }
);

conformance!(
    fn a_retry_that_a_cancel_refuses_leaves_no_error_behind(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = claimed(&mut conn);
        assert_eq!(conn.request_cancel(&default_schema(), &[fence.id]).unwrap(), [fence.id]);
        let before = row(db, fence.id);
        let how = PutBack {
            error: attempt_error("failed"),
            ..put_back()
        };
        assert_eq!(conn.put_back(&default_schema(), &fence, &how).unwrap(), 0);
        assert_eq!(row(db, fence.id), before);
        assert!(conn.job_errors(&default_schema(), fence.id).unwrap().is_empty());
    }
);

conformance!(
    fn the_error_of_an_attempt_is_kept_with_its_generation(db: &mut Db) {
        let mut conn = migrated(db);
        let fence = claimed(&mut conn);
        let how = PutBack {
            error: attempt_error("first"),
            ..put_back()
        };
        conn.put_back(&default_schema(), &fence, &how).unwrap();
        let fence = claim_notes(&mut conn)[0];
        let how = PutBack {
            error: attempt_error("snoozed"),
            uses_attempt: false,
            takes_away: true,
            ..put_back()
        };
        conn.put_back(&default_schema(), &fence, &how).unwrap();
        let fence = claim_notes(&mut conn)[0];
        let how = End {
            error: attempt_error("third"),
            takes_away: true,
            ..end("discarded")
        };
        conn.end(&default_schema(), &fence, &how).unwrap();
        let errors = conn.job_errors(&default_schema(), fence.id).unwrap();
        let told: Vec<_> = errors
            .iter()
            .map(|error| {
                (
                    error.attempt,
                    error.generation,
                    error.cause.as_str(),
                    error.error.as_str(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (1, 1, "error", "first"),
                (2, 2, "error", "snoozed"),
                (2, 4, "error", "third")
            ]
        );
        assert!(errors.iter().all(|error| error.at_ms > 1_600_000_000_000));
    }
);

conformance!(
    fn the_newest_hundred_errors_of_a_job_are_kept(db: &mut Db) {
        let mut conn = migrated(db);
        let other = claimed(&mut conn);
        let how = |number: u32| PutBack {
            error: attempt_error(&number.to_string()),
            ..put_back()
        };
        conn.put_back(
            &default_schema(),
            &other,
            &PutBack {
                delay_ms: 60_000,
                ..how(0)
            },
        )
        .unwrap();
        let id = note("often").enqueue(&mut conn).unwrap().id();
        for number in 1..=103 {
            let fence = claim_notes(&mut conn)[0];
            assert_eq!(fence.id, id);
            conn.put_back(&default_schema(), &fence, &how(number)).unwrap();
        }
        let kept = |conn: &mut Connection| {
            let attempts = inspect::errors(conn, &default_schema(), id).unwrap();
            let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.error.parse().unwrap()).collect();
            numbers
        };
        assert_eq!(kept(&mut conn), (4..=103).collect::<Vec<_>>());
        // The end of the job and the sweep keep as many.
        let fence = claim_notes(&mut conn)[0];
        conn.end(
            &default_schema(),
            &fence,
            &End {
                error: attempt_error("104"),
                ..end("discarded")
            },
        )
        .unwrap();
        assert_eq!(kept(&mut conn), (5..=104).collect::<Vec<_>>());
        assert_eq!(
            inspect::errors(&mut conn, &default_schema(), other.id).unwrap().len(),
            1
        );
    }
);

conformance!(
    fn a_released_job_has_its_attempt_and_its_run_time_back(db: &mut Db) {
        let mut conn = migrated(db);
        let ids: Vec<i64> = (0..3)
            .map(|number| note(number.to_string()).enqueue(&mut conn).unwrap().id())
            .collect();
        let before: Vec<_> = ids.iter().map(|id| kept(db, "leasehold.jobs", *id).unwrap()).collect();
        let fences = claim_notes(&mut conn);
        let mut released = conn.release(&default_schema(), &[fences[2], fences[0]]).unwrap();
        released.sort_unstable();
        assert_eq!(released, [ids[0], ids[2]]);
        for place in [0, 2] {
            assert_eq!(standing(db, ids[place]), "ready generation=1 attempt=0");
            assert!(is_free(db, ids[place]));
            let token = fences[place].lease_token.to_string();
            let after = kept(db, "leasehold.jobs", ids[place]).unwrap();
            assert_eq!(after, before[place].strip_suffix('-').unwrap().to_owned() + &token);
        }
        assert_eq!(standing(db, ids[1]), "running generation=1 attempt=1");
        // It is the first to be claimed again.
        assert_eq!(
            claim_notes(&mut conn).iter().map(|fence| fence.id).collect::<Vec<_>>(),
            [ids[0], ids[2]]
        );
    }
);
