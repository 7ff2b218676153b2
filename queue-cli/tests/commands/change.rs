//! Commands that change something.

use std::time::Duration;

use leasehold::Job as _;
use leasehold::Schema;
use leasehold::inspect::{ActionFilter, State};
use leasehold::schedule::{self, Schedule};
use leasehold_tests::jobs::{claim_and_die, job, prepare};
use leasehold_tests::{TestDb, conformance, eventually};
use serde_json::json;

use super::{Mail, leasehold, mail, work};

conformance! {
    fn a_discarded_job_is_requeued(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("no route").enqueue(&mut conn).unwrap().id();
        work(db);
        assert!(leasehold(db, &["requeue", &id.to_string(), "--dry-run"]).ok().out.contains("would be"));
        assert_eq!(job(&mut conn, id).state, State::Discarded);
        let generation = job(&mut conn, id).generation;

        leasehold(db, &["requeue", &id.to_string()]).ok();
        let again = job(&mut conn, id);
        assert_eq!((again.state, again.generation), (State::Ready, generation + 1));
        leasehold(db, &["retry", &id.to_string()]).refused(3, "is ready");
        leasehold(db, &["requeue", "4711"]).refused(1, "no job 4711");
    }
}

conformance! {
    fn many_jobs_are_requeued_if_somebody_says_so(db: &mut Db) {
        let mut conn = prepare(db);
        for _ in 0..3 {
            mail("no route").enqueue(&mut conn).unwrap();
        }
        work(db);
        leasehold(db, &["requeue", "--kind", "mail"]).refused(3, "Put back to ready 3 jobs?");
        let discarded = "SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'discarded'";
        let dry = leasehold(db, &["requeue", "--kind", "mail", "--dry-run", "--json"]).ok().json();
        assert_eq!((&dry["count"], &dry["dry_run"]), (&json!(3), &json!(true)));
        assert_eq!(db.integer(discarded), 3);
        let done = leasehold(db, &["requeue", "--kind", "mail", "--yes", "--json"]).ok().json();
        assert_eq!((&done["count"], &done["did"]), (&json!(3), &json!("requeued")));
        assert_eq!(db.integer(discarded), 0);
    }
}

conformance! {
    /// The owner of a running job is fenced out by a hard cancel, and only asked to stop by a soft one.
    fn jobs_are_cancelled_softly_or_hard(db: &mut Db) {
        let mut conn = prepare(db);
        let ready = mail("").enqueue(&mut conn).unwrap().id();
        leasehold(db, &["cancel", &ready.to_string(), "--dry-run"]).ok();
        assert_eq!(job(&mut conn, ready).state, State::Ready);
        leasehold(db, &["cancel", &ready.to_string(), "--reason", "not wanted", "--by", "ann"]).ok();
        let cancelled = job(&mut conn, ready);
        assert_eq!((cancelled.state, cancelled.reason.as_deref()), (State::Cancelled, Some("not wanted")));

        let running = mail("").enqueue(&mut conn).unwrap().id();
        let (_, fence) = claim_and_die::<Mail, _>(&mut conn, true);
        leasehold(db, &["cancel", &running.to_string()]).ok();
        assert!(job(&mut conn, running).cancel_requested);
        leasehold(db, &["cancel", "--state", "running", "--hard", "--yes"]).ok();
        let ended = job(&mut conn, running);
        assert_eq!((ended.state, ended.generation), (State::Cancelled, fence.generation + 1));
        leasehold(db, &["cancel", &running.to_string()]).refused(3, "not ended");
    }
}

conformance! {
    fn a_ready_job_is_edited_if_nobody_came_first(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("").enqueue(&mut conn).unwrap().id();
        let name = id.to_string();
        leasehold(db, &["edit", &name, "--priority", "-3", "--delay", "2h", "--dry-run"]).ok();
        assert_eq!(job(&mut conn, id).priority, 0);
        leasehold(db, &["edit", &name, "--priority", "-3", "--delay", "2h", "--generation", "0"]).ok();
        let edited = job(&mut conn, id);
        assert_eq!((edited.priority, edited.generation), (-3, 1));
        assert!(edited.run_at > std::time::SystemTime::now());
        leasehold(db, &["edit", &name, "--priority", "1", "--generation", "0"]).refused(3, "generation 1");
        leasehold(db, &["edit", &name]).refused(2, "--priority");
    }
}

conformance! {
    fn the_payload_of_a_ready_job_is_mended(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("no route").enqueue(&mut conn).unwrap().id();
        let name = id.to_string();
        let mended = r#"{"to": "ann", "error": ""}"#;
        leasehold(db, &["edit", &name, "--payload", "{to: ann}"]).refused(2, "not JSON");
        leasehold(db, &["edit", &name, "--payload", r#""a\u0000b""#]).refused(2, "NUL");
        leasehold(db, &["edit", &name, "--payload", mended, "--dry-run"]).ok();
        assert!(job(&mut conn, id).payload.contains("no route"));
        leasehold(db, &["edit", &name, "--payload", mended, "--by", "ann"]).ok();
        assert_eq!(job(&mut conn, id).payload, mended);
        work(db);
        assert_eq!(job(&mut conn, id).state, State::Completed);
        leasehold(db, &["edit", &name, "--payload", mended]).refused(3, "completed");
    }
}

conformance! {
    fn a_queue_is_paused_by_somebody_and_resumed(db: &mut Db) {
        prepare(db);
        leasehold(db, &["pause", "--queue", "mail", "--by", "ann", "--reason", "out of paper"]).ok();
        let pauses = leasehold(db, &["pauses", "--json"]).ok().json();
        assert_eq!(
            [&pauses[0]["scope"], &pauses[0]["name"], &pauses[0]["by"], &pauses[0]["reason"]],
            [&json!("queue"), &json!("mail"), &json!("ann"), &json!("out of paper")]
        );
        leasehold(db, &["resume", "--queue", "mail"]).ok();
        leasehold(db, &["resume", "--queue", "mail"]).refused(1, "not paused");
        leasehold(db, &["pause", "--all"]).ok();
        let pauses = leasehold(db, &["pauses", "--json"]).ok().json();
        assert!(pauses[0]["by"].as_str().unwrap().contains('@'), "{pauses}");
        leasehold(db, &["pause"]).refused(2, "--queue");
    }
}

conformance! {
    fn schedules_are_listed_paused_and_removed(db: &mut Db) {
        let mut conn = prepare(db);
        let hourly = Schedule::new("hourly", "@hourly").job(&mail(""));
        schedule::put(&mut conn, &Schema::default(), &hourly).unwrap();
        let list = |db: &Db| leasehold(db, &["schedules", "list", "--next", "3", "--json"]).ok().json();
        assert_eq!(list(db)[0]["next_at"].as_array().map(Vec::len), Some(3));
        leasehold(db, &["schedules", "pause", "hourly"]).ok();
        assert_eq!(list(db)[0]["paused"], true);
        leasehold(db, &["schedules", "resume", "hourly"]).ok();
        leasehold(db, &["schedules", "remove", "hourly", "--dry-run"]).ok();
        assert_eq!(list(db)[0]["paused"], false);
        leasehold(db, &["schedules", "remove", "hourly"]).refused(3, "--yes");
        leasehold(db, &["schedules", "remove", "hourly", "--yes"]).ok();
        assert_eq!(list(db), json!([]));
        leasehold(db, &["schedules", "pause", "hourly"]).refused(1, "no schedule `hourly`");
    }
}

conformance! {
    fn finished_jobs_are_purged_if_somebody_says_so(db: &mut Db) {
        let mut conn = prepare(db);
        mail("").enqueue(&mut conn).unwrap();
        work(db);
        let left = "SELECT count(*) FROM leasehold.finished_jobs";
        let purge = ["purge", "--state", "completed", "--older-than", "0s"];
        leasehold(db, &purge).refused(3, "for good");
        leasehold(db, &[&purge[..], &["--dry-run"]].concat()).ok();
        assert_eq!(db.integer(left), 1);
        leasehold(db, &[&purge[..], &["--yes"]].concat()).ok();
        assert_eq!(db.integer(left), 0);
        leasehold(db, &purge).refused(1, "no job matches");
    }
}

conformance! {
    fn a_job_is_enqueued_if_somebody_serves_its_kind(db: &mut Db) {
        prepare(db);
        let jobs = "SELECT count(*) FROM leasehold.jobs";
        let payload = r#"{"to": "b", "error": "", "n": 1.10}"#;
        leasehold(db, &["enqueue", "mail", payload]).refused(3, "no live worker");
        leasehold(db, &["enqueue", "mail", "{"]).refused(2, "not JSON");
        leasehold(db, &["enqueue", "mail", payload, "--force", "--dry-run"]).ok();
        assert_eq!(db.integer(jobs), 0);

        let worker = leasehold::Worker::<Connection, _>::new(db.url(), ()).register::<Mail>().queues(["other"]).start().unwrap();
        let shown = "SELECT count(*) FROM leasehold.workers";
        eventually(Duration::from_secs(30), "the worker shows itself", || db.integer(shown) == 1);
        leasehold(db, &["enqueue", "mail", payload, "--version", "2"]).refused(3, "up to version 1");
        let enqueue = ["enqueue", "mail", payload, "--queue", "mail", "--priority", "-2", "--idempotency-key", "once", "--json"];
        let first = leasehold(db, &enqueue).ok().json();
        let again = leasehold(db, &enqueue).ok().json();
        assert_eq!((&first["new"], &again["new"], &first["id"]), (&json!(true), &json!(false), &again["id"]));
        assert_eq!(db.text("SELECT CAST(payload AS text) FROM leasehold.jobs").as_deref(), Some(payload));
        assert_eq!(db.integer("SELECT priority FROM leasehold.jobs"), -2);
        worker.shutdown(Duration::from_secs(30));
        work(db);
        assert_eq!(db.integer(jobs), 0);
    }
}

conformance! {
    fn open_jobs_are_discarded(db: &mut Db) {
        let mut conn = prepare(db);
        let running = mail("").enqueue(&mut conn).unwrap().id();
        let (_, fence) = claim_and_die::<Mail, _>(&mut conn, true);
        leasehold(db, &["discard", &running.to_string(), "--dry-run"]).ok();
        leasehold(db, &["discard", &running.to_string(), "--reason", "a bad address"]).ok();
        let ended = job(&mut conn, running);
        assert_eq!((ended.state, ended.generation), (State::Discarded, fence.generation + 1));
        assert_eq!(ended.reason.as_deref(), Some("a bad address"));
        let did = leasehold::inspect::actions(&mut conn, &Schema::default(), &ActionFilter::new(), None, 1).unwrap();
        assert!(did[0].action == "discard" && did[0].by.contains('@'), "{did:?}");
        leasehold(db, &["discard", &running.to_string()]).refused(3, "not ended");
        mail("").enqueue(&mut conn).unwrap();
        leasehold(db, &["discard", "--kind", "mail"]).refused(3, "Discard 1 job?");
        leasehold(db, &["discard", "--kind", "mail", "--yes"]).ok();
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.jobs"), 0);
    }
}
