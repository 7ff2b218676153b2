//! The fence: no write of a claimed job passes with another generation, another token, another id, or once the job is not
//! running any more; and what is refused changes nothing.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use leasehold::__private::Fence;

use crate::support::*;

/// One kind of write of a claimed job; whether it was accepted.
struct Write<C> {
    name: &'static str,
    write: fn(&mut C, &Fence) -> bool,
    /// Whether the job is still running afterwards.
    keeps_running: bool,
}

pub(crate) fn put_back() -> PutBack {
    PutBack {
        delay_ms: 0,
        uses_attempt: true,
        takes_away: false,
        error: None,
    }
}

fn complete<C: Backend>(conn: &mut C, fence: &Fence, strict: bool) -> bool {
    conn.begin_commit(None, &ConnectionSettings::default()).unwrap();
    let completion = conn.complete(&default_schema(), fence, strict).unwrap();
    AnsiTransactionManager::commit_transaction(conn).unwrap();
    assert_ne!(completion, Completion::Ended);
    completion == Completion::Completed
}

fn writes<C: Backend>() -> [Write<C>; 9] {
    let write = |name, write, keeps_running| Write {
        name,
        write,
        keeps_running,
    };
    [
        write(
            "begin",
            |conn, fence| !conn.begin(&default_schema(), &[*fence]).unwrap().is_empty(),
            true,
        ),
        write(
            "heartbeat",
            |conn, fence| !conn.heartbeat(&default_schema(), &[*fence]).unwrap().is_empty(),
            true,
        ),
        write("complete", |conn, fence| complete(conn, fence, false), false),
        write("complete strictly", |conn, fence| complete(conn, fence, true), false),
        write(
            "finish",
            |conn, fence| !conn.finish(&default_schema(), &[*fence]).unwrap().is_empty(),
            false,
        ),
        write(
            "put back",
            |conn, fence| conn.put_back(&default_schema(), fence, &put_back()).unwrap() == 1,
            false,
        ),
        write(
            "put back with an error",
            |conn, fence| {
                let error = Some(AttemptError {
                    cause: "error",
                    error: "late".to_owned(),
                });
                conn.put_back(&default_schema(), fence, &PutBack { error, ..put_back() })
                    .unwrap()
                    == 1
            },
            false,
        ),
        write(
            "end",
            |conn, fence| {
                let end = End {
                    state: "discarded",
                    reason: Some("late".to_owned()),
                    takes_away: false,
                    error: Some(AttemptError {
                        cause: "error",
                        error: "late".to_owned(),
                    }),
                };
                conn.end(&default_schema(), fence, &end).unwrap() == 1
            },
            false,
        ),
        write(
            "release",
            |conn, fence| !conn.release(&default_schema(), &[*fence]).unwrap().is_empty(),
            false,
        ),
    ]
}

conformance!(
    fn every_write_of_a_claimed_job_names_generation_token_and_id(db: &mut Db) {
        let mut conn = migrated(db);
        for Write { name, write, .. } in writes::<Connection>() {
            let fence = claimed(&mut conn);
            let before = row(db, fence.id);
            for wrong in near_misses(&fence) {
                assert!(!write(&mut conn, &wrong), "{name} passes with {wrong:?} for {fence:?}");
                assert_eq!(row(db, fence.id), before, "{name}");
            }
            assert_eq!(
                db.integer(&format!(
                    "SELECT count(*) FROM leasehold.job_errors WHERE job_id = {}",
                    fence.id
                )),
                0
            );
            assert!(write(&mut conn, &fence), "{name}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
);

conformance!(
    /// Put back and released rows keep generation and token, so the state alone refuses these.
    fn no_write_passes_once_the_job_is_not_running(db: &mut Db) {
        let mut conn = migrated(db);
        for Write {
            name,
            write,
            keeps_running,
        } in writes::<Connection>()
        {
            let fence = claimed(&mut conn);
            assert_eq!(conn.put_back(&default_schema(), &fence, &put_back()).unwrap(), 1);
            let before = row(db, fence.id);
            assert!(!write(&mut conn, &fence), "{name} passes on a ready job");
            assert_eq!(row(db, fence.id), before, "{name}");

            let fence = claim_notes(&mut conn)[0];
            assert!(write(&mut conn, &fence), "{name}");
            assert_eq!(write(&mut conn, &fence), keeps_running, "{name}, once more");
            conn.finish(&default_schema(), &[fence]).unwrap();
            let finished = kept(db, "leasehold.finished_jobs", fence.id);
            assert!(!write(&mut conn, &fence), "{name} passes on a finished job");
            assert_eq!(kept(db, "leasehold.finished_jobs", fence.id), finished, "{name}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
);

conformance!(
    fn the_owner_before_is_refused_while_the_next_one_holds_the_job(db: &mut Db) {
        let mut conn = migrated(db);
        for Write { name, write, .. } in writes::<Connection>() {
            let late = claimed(&mut conn);
            let owner = take_over(&mut conn, late.id).unwrap();
            assert!(owner.generation > late.generation && owner.lease_token != late.lease_token);
            let before = row(db, owner.id);
            assert!(!write(&mut conn, &late), "{name}");
            assert_eq!(row(db, owner.id), before, "{name}");
            assert!(write(&mut conn, &owner), "{name}");
            db.sql("DELETE FROM leasehold.jobs");
        }
    }
);

/// A write of many claimed jobs; the ids that were accepted.
type Batch<C> = (&'static str, fn(&mut C, &[Fence]) -> Vec<i64>);

conformance!(
    fn a_refused_job_does_not_refuse_its_neighbours(db: &mut Db) {
        let mut conn = migrated(db);
        let batches: [Batch<Connection>; 4] = [
            ("begin", |conn, fences| conn.begin(&default_schema(), fences).unwrap()),
            ("heartbeat", |conn, fences| {
                let beats = conn.heartbeat(&default_schema(), fences).unwrap();
                assert!(beats.iter().all(|beat| beat.renewed && !beat.cancel_requested));
                beats.iter().map(|beat| beat.id).collect()
            }),
            ("finish", |conn, fences| conn.finish(&default_schema(), fences).unwrap()),
            ("release", |conn, fences| {
                conn.release(&default_schema(), fences).unwrap()
            }),
        ];
        for (name, batch) in batches {
            let fences = claimed_many(&mut conn, 8);
            let mut given = fences.clone();
            given[1].generation += 1;
            given[2].generation -= 1;
            given[3].lease_token = uuid::Uuid::new_v4();
            // The fences of two jobs of two claims, swapped: each half is somebody's.
            let other = take_over(&mut conn, fences[5].id).unwrap();
            (given[4].generation, given[4].lease_token) = (other.generation, other.lease_token);
            assert_eq!(conn.put_back(&default_schema(), &fences[6], &put_back()).unwrap(), 1);
            given.reverse();
            let mut accepted = batch(&mut conn, &given);
            accepted.sort_unstable();
            assert_eq!(accepted, [fences[0].id, fences[7].id], "{name}");
            db.sql("DELETE FROM leasehold.jobs");
            assert!(batch(&mut conn, &fences).is_empty(), "{name}: rows that are gone");
            assert!(batch(&mut conn, &[]).is_empty(), "{name}: nothing");
        }
    }
);
