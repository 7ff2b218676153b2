//! Limits: how many jobs of a key are admitted, which of them, and when there is room again.

use std::time::Duration;

use leasehold::__private::Fence;
use leasehold::manage::{self, Cancel, Edit};
use leasehold::{EnqueueOptions, Job};
use serde::{Deserialize, Serialize};

use crate::fence::put_back;
use crate::support::*;

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "pair", concurrency(by = "tenant", max = 2))]
struct Pair {
    tenant: u64,
    n: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "whole", concurrency(max = 1))]
struct Whole {
    n: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "turn", serial(by = "tenant"))]
struct Turn {
    tenant: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "rated", rate(by = "tenant", max = 3, per = "1h"))]
struct Rated {
    tenant: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(
    kind = "both",
    rate(by = "tenant", max = 3, per = "1h"),
    concurrency(by = "tenant", max = 2)
)]
struct Both {
    tenant: u64,
}

fn serves<J: Job>() -> [Served; 1] {
    [served("default", J::KIND, 1)]
}

/// Lets through what the limit of `J` has room for, as a worker does.
#[track_caller]
fn admit<J: Job>(conn: &mut impl Backend) {
    admit_all(conn, &default_schema(), &[limit_of::<J>()]).unwrap();
}

/// Admits and claims all that can be claimed, as a worker that counts starts; in id order.
#[track_caller]
fn admit_and_claim<J: Job>(conn: &mut impl Backend, begun: bool) -> Vec<Fence> {
    admit::<J>(conn);
    claim_admitted::<J>(conn, begun)
}

#[track_caller]
fn claim_admitted<J: Job>(conn: &mut impl Backend, begun: bool) -> Vec<Fence> {
    let (serves, counted) = (serves::<J>(), counted::<J>());
    let request = ClaimRequest {
        begun,
        counted: &counted,
        ..request(&serves, 1000)
    };
    let rows = conn.claim(&default_schema(), &request).unwrap();
    let mut fences: Vec<Fence> = rows.iter().map(|row| fence_of(row, request.lease_token)).collect();
    fences.sort_unstable();
    fences
}

fn counted<J: Job>() -> Vec<CountedKind> {
    let limit = limit_of::<J>();
    let rate = limit.rate.into_iter();
    rate.map(|rate| CountedKind {
        kind: limit.kind.clone(),
        per_ms: rate.per_ms,
    })
    .collect()
}

#[track_caller]
fn enqueue<J: Job>(conn: &mut impl Backend, jobs: &[J]) -> Vec<i64> {
    let enqueued = J::enqueue_all(jobs, conn, &EnqueueOptions::new()).unwrap();
    enqueued.iter().map(leasehold::Enqueued::id).collect()
}

fn ids(fences: &[Fence]) -> Vec<i64> {
    fences.iter().map(|fence| fence.id).collect()
}

/// `blocked`, `ready`, `scheduled`, `running` or the end of each job.
#[track_caller]
fn states<D: TestDb>(db: &mut D, ids: &[i64]) -> String {
    let state = "CASE WHEN blocked_by IS NOT NULL THEN 'blocked' WHEN CAST(scheduled AS integer) = 1 THEN 'scheduled' ELSE state END";
    let texts = ids.iter().map(|id| {
        db.text(&format!(
            "SELECT {state} FROM leasehold.jobs WHERE id = {id} UNION ALL SELECT state FROM leasehold.finished_jobs WHERE id = {id}"
        ))
    });
    texts.map(Option::unwrap).collect::<Vec<_>>().join(" ")
}

conformance! {
    fn a_job_with_a_limit_waits_until_it_is_admitted(db: &mut Db) {
        let mut conn = migrated(db);
        let ids_ = enqueue(&mut conn, &[1, 2, 3].map(|n| Pair { tenant: 7, n }));
        assert_eq!(states(db, &ids_), "blocked blocked blocked");
        assert!(claim_admitted::<Pair>(&mut conn, true).is_empty());
        let waiting = conn.waiting(&default_schema(), &serves::<Pair>(), 1000).unwrap();
        assert_eq!((waiting.blocked, waiting.ready), (3, 0));
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "ready ready blocked");
        // Neither admitted nor running ones leave room.
        admit::<Pair>(&mut conn);
        let held = claim_admitted::<Pair>(&mut conn, true);
        assert_eq!(ids(&held), ids_[..2]);
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "running running blocked");
        conn.finish(&default_schema(), &held[..1]).unwrap();
        assert_eq!(ids(&admit_and_claim::<Pair>(&mut conn, true)), ids_[2..]);
    }
}

conformance! {
    fn each_key_has_its_own_limit_and_a_limit_without_a_key_is_the_kinds(db: &mut Db) {
        let mut conn = migrated(db);
        let jobs: Vec<Pair> = (0..30).map(|n| Pair { tenant: n % 10, n }).collect();
        let of_pair = enqueue(&mut conn, &jobs);
        let of_whole = enqueue(&mut conn, &[1, 2].map(|n| Whole { n }));
        // The first two of each of the ten tenants.
        assert_eq!(ids(&admit_and_claim::<Pair>(&mut conn, true)), of_pair[..20]);
        assert_eq!(ids(&admit_and_claim::<Whole>(&mut conn, true)), of_whole[..1]);
        // The same fields in another kind are another key.
        let turns = enqueue(&mut conn, &[Turn { tenant: 1 }]);
        assert_eq!(ids(&admit_and_claim::<Turn>(&mut conn, true)), turns);
    }
}

conformance! {
    fn more_keys_than_one_look_takes_are_all_looked_at(db: &mut Db) {
        let mut conn = migrated(db);
        let jobs: Vec<Turn> = (0..600).map(|tenant| Turn { tenant }).collect();
        let ids_ = enqueue(&mut conn, &jobs);
        assert_eq!(ids(&admit_and_claim::<Turn>(&mut conn, true)), ids_);
    }
}

conformance! {
    fn a_limit_lets_the_higher_priority_and_then_the_older_job_through_first(db: &mut Db) {
        let mut conn = migrated(db);
        let ids_: Vec<i64> = [0, 0, 5, -5, 5].into_iter().map(|priority| {
            let options = EnqueueOptions::new().priority(priority);
            Pair { tenant: 1, n: 0 }.enqueue_with(&mut conn, &options).unwrap().id()
        }).collect();
        let mut order = Vec::new();
        loop {
            let held = admit_and_claim::<Pair>(&mut conn, true);
            if held.is_empty() {
                break;
            }
            order.push(ids(&held));
            conn.finish(&default_schema(), &held).unwrap();
        }
        assert_eq!(order, [vec![ids_[2], ids_[4]], vec![ids_[0], ids_[1]], vec![ids_[3]]]);
    }
}

conformance! {
    fn every_way_out_of_running_makes_room_and_no_way_back_goes_round_the_limit(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let ids_ = enqueue(&mut conn, &[1, 2, 3, 4].map(|n| Pair { tenant: 1, n }));
        let held = admit_and_claim::<Pair>(&mut conn, true);
        // Back at once: it waits like the others, and comes first because it is the oldest.
        conn.put_back(&schema, &held[0], &PutBack { delay_ms: 0, ..put_back() }).unwrap();
        assert_eq!(states(db, &ids_), "blocked running blocked blocked");
        // Back later: its place is another's meanwhile.
        conn.put_back(&schema, &held[1], &PutBack { delay_ms: 60_000, ..put_back() }).unwrap();
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "ready scheduled ready blocked");
        let held = claim_admitted::<Pair>(&mut conn, true);
        // Due again: it waits.
        db.set_time("leasehold.jobs", "run_at", -1000, &format!("id = {}", ids_[1]));
        assert_eq!(conn.promote(&schema, &serves::<Pair>(), 10).unwrap(), 1);
        assert_eq!(states(db, &ids_), "running blocked running blocked");
        // A dead worker's job holds its place until it is swept, and waits then.
        admit::<Pair>(&mut conn);
        assert_eq!(conn.expire_lease(&schema, held[0].id).unwrap(), 1);
        assert_eq!(conn.sweep(&schema, 10).unwrap().len(), 1);
        assert_eq!(states(db, &ids_), "blocked blocked running blocked");
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "ready blocked running blocked");
        // Cancelled, whether it ran or was only admitted.
        for id in [ids_[0], ids_[2]] {
            assert!(manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "a test").unwrap());
        }
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "cancelled ready cancelled ready");
    }
}

conformance! {
    fn a_prefetched_job_holds_its_place_through_release_and_sweep(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let ids_ = enqueue(&mut conn, &[1, 2, 3, 4].map(|n| Pair { tenant: 1, n }));
        let held = admit_and_claim::<Pair>(&mut conn, false);
        conn.release(&schema, &held[..1]).unwrap();
        assert_eq!(conn.expire_lease(&schema, held[1].id).unwrap(), 1);
        assert_eq!(conn.sweep(&schema, 10).unwrap().len(), 1);
        // Admitted as before: nobody else has got their places.
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "ready ready blocked blocked");
    }
}

conformance! {
    fn serial_jobs_run_in_order_of_enqueue_whatever_their_priority(db: &mut Db) {
        let mut conn = migrated(db);
        let ids_: Vec<i64> = [0, 9, 5].into_iter().map(|priority| {
            let options = EnqueueOptions::new().priority(priority);
            Turn { tenant: 1 }.enqueue_with(&mut conn, &options).unwrap().id()
        }).collect();
        for id in &ids_ {
            let held = admit_and_claim::<Turn>(&mut conn, true);
            assert_eq!(ids(&held), [*id]);
            assert!(admit_and_claim::<Turn>(&mut conn, true).is_empty());
            conn.finish(&default_schema(), &held).unwrap();
        }
    }
}

conformance! {
    fn a_serial_job_that_failed_keeps_its_turn_and_a_snoozed_one_gives_it_away(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let late = EnqueueOptions::new().delay(Duration::from_secs(600));
        let early = Turn { tenant: 1 }.enqueue_with(&mut conn, &late).unwrap().id();
        let ids_ = enqueue(&mut conn, &[Turn { tenant: 1 }, Turn { tenant: 1 }]);
        let held = admit_and_claim::<Turn>(&mut conn, true);
        assert_eq!(ids(&held), ids_[..1]);
        let failed = PutBack { delay_ms: 60_000, uses_attempt: true, ..put_back() };
        conn.put_back(&schema, &held[0], &failed).unwrap();
        // While it waits for its next attempt nobody else has the turn, not even one that was enqueued before it.
        db.set_time("leasehold.jobs", "run_at", -1000, &format!("id = {early}"));
        conn.promote(&schema, &serves::<Turn>(), 10).unwrap();
        assert!(admit_and_claim::<Turn>(&mut conn, true).is_empty());
        db.set_time("leasehold.jobs", "run_at", -1000, &format!("id = {}", ids_[0]));
        conn.promote(&schema, &serves::<Turn>(), 10).unwrap();
        assert_eq!(states(db, &[early, ids_[0], ids_[1]]), "blocked blocked blocked");
        let held = admit_and_claim::<Turn>(&mut conn, true);
        assert_eq!(ids(&held), ids_[..1]);
        conn.finish(&schema, &held).unwrap();
        // A job that has not failed gives its turn away when it puts itself off.
        let held = admit_and_claim::<Turn>(&mut conn, true);
        assert_eq!(ids(&held), [early]);
        conn.put_back(&schema, &held[0], &PutBack { uses_attempt: false, ..failed }).unwrap();
        assert_eq!(ids(&admit_and_claim::<Turn>(&mut conn, true)), ids_[1..]);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has no row locks")]
    fn a_serial_job_that_somebody_has_locked_is_waited_for(db: &mut Db) {
        let mut conn = migrated(db);
        let ids_ = enqueue(&mut conn, &[Turn { tenant: 1 }, Turn { tenant: 1 }]);
        let mut other = open(db);
        other.transaction(|tx| {
            assert!(tx.lock_ownership(&default_schema(), ids_[0])?.is_some());
            admit::<Turn>(&mut conn);
            Ok::<_, diesel::result::Error>(())
        }).unwrap();
        assert_eq!(states(db, &ids_), "blocked blocked");
        admit::<Turn>(&mut conn);
        assert_eq!(states(db, &ids_), "ready blocked");
    }
}

conformance! {
    fn a_rate_counts_what_has_begun_and_what_may_begin(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let ids_ = enqueue(&mut conn, &[0; 6].map(|_| Rated { tenant: 1 }));
        // Three may begin, whether or not they have.
        admit::<Rated>(&mut conn);
        admit::<Rated>(&mut conn);
        assert_eq!(states(db, &ids_), "ready ready ready blocked blocked blocked");
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.starts"), 0);
        // Claimed ahead is not begun, and given back it may begin still.
        let held = claim_admitted::<Rated>(&mut conn, false);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.starts"), 0);
        assert_eq!(conn.begin_counted(&schema, &held[..2], &counted::<Rated>()).unwrap().len(), 2);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.starts"), 2);
        conn.release(&schema, &held[2..]).unwrap();
        admit::<Rated>(&mut conn);
        assert_eq!(states(db, &ids_), "running running ready blocked blocked blocked");
        let third = claim_admitted::<Rated>(&mut conn, true);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.starts"), 3);
        // Their ends make no room: the hour does.
        conn.finish(&schema, &[&held[..2], &third].concat()).unwrap();
        admit::<Rated>(&mut conn);
        assert_eq!(states(db, &ids_[3..]), "blocked blocked blocked");
        let rooms = conn.room(&schema, &limit_of::<Rated>(), Keys::After("", 10)).unwrap();
        assert!(is_about(Duration::from_millis(rooms[0].next_ms.unwrap().unsigned_abs()), Duration::from_secs(3600)), "{rooms:?}");
        db.set_time("leasehold.starts", "at", -3_599_000, &format!("job_id = {}", ids_[0]));
        let rooms = conn.room(&schema, &limit_of::<Rated>(), Keys::After("", 10)).unwrap();
        assert!(rooms[0].room <= 1 && rooms[0].next_ms.is_none_or(|ms| ms <= 1000), "{rooms:?}");
        db.set_time("leasehold.starts", "at", -3_600_001, &format!("job_id = {}", ids_[0]));
        admit::<Rated>(&mut conn);
        assert_eq!(states(db, &ids_[3..]), "ready blocked blocked");
    }
}

conformance! {
    fn each_attempt_counts_for_the_rate_and_other_keys_have_their_own(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        enqueue(&mut conn, &[Rated { tenant: 1 }]);
        for _ in 0..3 {
            let held = admit_and_claim::<Rated>(&mut conn, true);
            conn.put_back(&schema, &held[0], &PutBack { delay_ms: 0, ..put_back() }).unwrap();
        }
        assert!(admit_and_claim::<Rated>(&mut conn, true).is_empty());
        enqueue(&mut conn, &[Rated { tenant: 2 }]);
        assert_eq!(admit_and_claim::<Rated>(&mut conn, true).len(), 1);
    }
}

conformance! {
    fn a_rate_and_a_concurrency_hold_together(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        enqueue(&mut conn, &[0; 6].map(|_| Both { tenant: 1 }));
        let held = admit_and_claim::<Both>(&mut conn, true);
        assert_eq!(held.len(), 2);
        conn.finish(&schema, &held).unwrap();
        let held = admit_and_claim::<Both>(&mut conn, true);
        assert_eq!(held.len(), 1);
        conn.finish(&schema, &held).unwrap();
        assert!(admit_and_claim::<Both>(&mut conn, true).is_empty());
    }
}

conformance! {
    fn starts_that_no_rate_looks_at_any_more_are_removed(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        enqueue(&mut conn, &[0; 3].map(|_| Rated { tenant: 1 }));
        let held = admit_and_claim::<Rated>(&mut conn, true);
        assert_eq!(conn.sweep_starts(&schema, 10).unwrap(), 0);
        db.set_time("leasehold.starts", "expires_at", -1, &format!("job_id <> {}", held[0].id));
        assert_eq!(conn.sweep_starts(&schema, 1).unwrap(), 1);
        assert_eq!(conn.sweep_starts(&schema, 10).unwrap(), 1);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.starts"), 1);
    }
}

conformance! {
    fn jobs_that_were_enqueued_with_a_limit_which_is_gone_are_let_through(db: &mut Db) {
        #[derive(Serialize, Deserialize, Job)]
        #[job(kind = "turn")]
        struct NoTurn {
            tenant: u64,
        }
        let mut conn = migrated(db);
        let ids_ = enqueue(&mut conn, &[0; 3].map(|_| Turn { tenant: 1 }));
        assert_eq!(ids(&admit_and_claim::<NoTurn>(&mut conn, true)), ids_);
    }
}

conformance! {
    #[skip(sqlite, "SQLite has one writer at a time")]
    fn only_one_transaction_admits_at_a_time(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let mut other = open(db);
        other.transaction(|tx| {
            assert!(tx.try_lock_admission(&schema)?);
            conn.transaction(|conn| {
                assert!(!conn.try_lock_admission(&schema)?);
                // Another schema's jobs are other jobs.
                assert!(conn.try_lock_admission(&leasehold::Schema::named("other").unwrap())?);
                Ok::<_, diesel::result::Error>(())
            })
        }).unwrap();
        conn.transaction(|conn| conn.try_lock_admission(&schema).map(|locked| assert!(locked))).unwrap();
    }
}

conformance! {
    fn paused_kinds_are_not_admitted_and_a_limit_holds_through_a_pause(db: &mut Db) {
        use leasehold::manage::Scope;
        let (mut conn, schema) = (migrated(db), default_schema());
        let ids_ = enqueue(&mut conn, &[1, 2, 3].map(|n| Pair { tenant: 1, n }));
        manage::pause(&mut conn, &schema, Scope::Kind("pair"), "ops", "a test").unwrap();
        admit::<Pair>(&mut conn);
        assert_eq!(states(db, &ids_), "blocked blocked blocked");
        let waiting = conn.waiting(&schema, &serves::<Pair>(), 1000).unwrap();
        assert_eq!((waiting.blocked, waiting.paused), (0, 3));
        manage::resume(&mut conn, &schema, Scope::Kind("pair"), "ops").unwrap();
        admit::<Pair>(&mut conn);
        manage::pause(&mut conn, &schema, Scope::Queue("default"), "ops", "a test").unwrap();
        assert!(admit_and_claim::<Pair>(&mut conn, true).is_empty());
        manage::resume(&mut conn, &schema, Scope::Queue("default"), "ops").unwrap();
        assert_eq!(ids(&admit_and_claim::<Pair>(&mut conn, true)), ids_[..2]);
    }
}

conformance!(
    fn an_edit_leaves_an_admitted_job_its_place_unless_its_run_time_is_another(db: &mut Db) {
        let mut conn = migrated(db);
        let (schema, id) = (default_schema(), enqueue(&mut conn, &[Rated { tenant: 1 }])[0]);
        admit::<Rated>(&mut conn);
        assert_eq!(states(db, &[id]), "ready");
        let sooner = Edit::new().priority(7).payload(&Rated { tenant: 1 }).unwrap();
        assert_eq!(manage::edit(&mut conn, &schema, id, 0, &sooner, "ops").unwrap(), 1);
        assert_eq!(states(db, &[id]), "ready");
        let now = Edit::new().delay(Duration::ZERO);
        assert_eq!(manage::edit(&mut conn, &schema, id, 1, &now, "ops").unwrap(), 2);
        assert_eq!(states(db, &[id]), "blocked");
        admit::<Rated>(&mut conn);
        let other = Edit::new().payload(&Rated { tenant: 2 }).unwrap();
        assert_eq!(manage::edit(&mut conn, &schema, id, 2, &other, "ops").unwrap(), 3);
        assert_eq!(states(db, &[id]), "blocked", "another tenant has another limit");
    }
);

conformance!(
    /// Of a job that fails and is claimed again, only the start that has not come about.
    fn a_job_that_is_released_has_not_started(db: &mut Db) {
        let mut conn = migrated(db);
        enqueue(&mut conn, &[1, 1, 1, 1].map(|tenant| Rated { tenant }));
        let held = admit_and_claim::<Rated>(&mut conn, true);
        assert_eq!(held.len(), 3);
        assert!(
            admit_and_claim::<Rated>(&mut conn, true).is_empty(),
            "three have started"
        );
        let starts = "SELECT count(*) FROM leasehold.starts";
        assert_eq!(conn.release(&default_schema(), &held[..1]).unwrap(), [held[0].id]);
        assert_eq!(db.integer(starts), 2);
        // It has its place still, and starts once.
        let again = admit_and_claim::<Rated>(&mut conn, true);
        assert_eq!(ids(&again), [held[0].id]);
        assert_eq!(db.integer(starts), 3);
        // One that was claimed ahead has no start of this lease; the one before stays.
        let failed = PutBack {
            delay_ms: 0,
            ..put_back()
        };
        assert_eq!(conn.put_back(&default_schema(), &again[0], &failed).unwrap(), 1);
        db.set_time(
            "leasehold.starts",
            "at",
            -3_600_001,
            &format!("job_id = {}", held[1].id),
        );
        let ahead = admit_and_claim::<Rated>(&mut conn, false);
        assert_eq!(ahead.len(), 1);
        assert_eq!(db.integer(starts), 3);
        assert_eq!(conn.release(&default_schema(), &ahead).unwrap(), ids(&ahead));
        assert_eq!(db.integer(starts), 3);
    }
);
