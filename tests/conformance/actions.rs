//! What people do by hand is recorded: by whom, when, why, and with which generations; and nothing else is.

use std::time::{Duration, SystemTime};

use diesel::connection::Connection as _;
use diesel::result::Error;
use leasehold::inspect::{self, ActionFilter, Filter, Happening, State, Target};
use leasehold::manage::{self, Cancel, Edit, Scope};
use leasehold::schedule::{self, Schedule};
use leasehold::{Batch, Job, JobError, batch};

use crate::support::*;

/// Each action in one line, the oldest first.
fn told<C: Backend>(conn: &mut C, filter: &ActionFilter) -> Vec<String> {
    let mut actions = inspect::actions(conn, &default_schema(), filter, None, 100).unwrap();
    actions.reverse();
    assert!(actions.windows(2).all(|two| two[0].at <= two[1].at), "{actions:?}");
    let lines = actions.into_iter().map(|done| {
        let target = match done.target {
            Target::Job {
                generation,
                new_generation,
                ..
            } => format!("job {generation}-{new_generation}"),
            other => format!("{other:?}"),
        };
        let reason = done.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{} {} {target}{reason}", done.by, done.action)
    });
    lines.collect()
}

#[track_caller]
fn count(db: &mut impl TestDb) -> i64 {
    db.integer("SELECT count(*) FROM leasehold.actions")
}

conformance!(
    fn each_action_to_a_job_is_recorded_with_who_why_and_both_generations(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let before = SystemTime::now() - Duration::from_secs(1);
        let id = note("a").enqueue(&mut conn).unwrap().id();
        manage::edit(&mut conn, &schema, id, 0, &Edit::new().priority(2), "ada").unwrap();
        manage::cancel(&mut conn, &schema, id, Cancel::Soft, "grace", "not yet").unwrap();
        manage::requeue(&mut conn, &schema, id, "ada").unwrap();
        let counts = run(&mut conn, |_, mut lease| {
            lease.step("charge", |_| Ok::<_, std::io::Error>(1))?;
            Err(JobError::discard("no paper"))
        });
        assert_eq!(counts.discarded, 1);
        manage::forget_steps(&mut conn, &schema, id, "ada").unwrap();
        manage::requeue(&mut conn, &schema, id, "ada").unwrap();
        let fence = claim_notes(&mut conn)[0];
        manage::cancel(&mut conn, &schema, id, Cancel::Soft, "grace", "please").unwrap();
        manage::discard(&mut conn, &schema, id, "eve\0", "at\0once").unwrap();
        assert!(conn.finish(&schema, &[fence]).unwrap().is_empty());

        let all = [
            "ada edit job 0-1",
            "grace cancel job 1-2: not yet",
            "ada requeue job 2-3",
            "ada forget steps job 4-4",
            "ada requeue job 4-5",
            "grace request cancel job 6-6: please",
            "eve\u{fffd} discard job 6-7: at\u{fffd}once",
        ];
        assert_eq!(told(&mut conn, &ActionFilter::new()), all);
        assert_eq!(told(&mut conn, &ActionFilter::new().job(id)), all);
        assert_eq!(
            told(&mut conn, &ActionFilter::new().job(id).by("grace")),
            [all[1], all[5]]
        );
        assert_eq!(told(&mut conn, &ActionFilter::new().by("grace")), [all[1], all[5]]);
        assert_eq!(told(&mut conn, &ActionFilter::new().by("eve\0")), [all[6]]);
        assert!(told(&mut conn, &ActionFilter::new().by("grac")).is_empty());
        assert!(told(&mut conn, &ActionFilter::new().job(id + 1)).is_empty());
        let newest = inspect::actions(&mut conn, &schema, &ActionFilter::new(), None, 1).unwrap();
        assert!(newest[0].at > before && newest[0].at < SystemTime::now() + Duration::from_secs(1));
        assert!(matches!(newest[0].target, Target::Job { id: of, .. } if of == id));
    }
);

conformance!(
    fn actions_to_queues_kinds_schedules_and_batches_are_recorded(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        manage::pause(&mut conn, &schema, Scope::Queue("mail"), "ada", "no paper").unwrap();
        manage::pause(&mut conn, &schema, Scope::All, "ada", "").unwrap();
        manage::pause(&mut conn, &schema, Scope::Kind("note"), "ada", "ink").unwrap();
        manage::resume(&mut conn, &schema, Scope::Queue("mail"), "grace").unwrap();
        schedule::put(&mut conn, &schema, &Schedule::new("hourly", "@hourly").job(&note("n"))).unwrap();
        schedule::pause(&mut conn, &schema, "hourly", "ada").unwrap();
        schedule::resume(&mut conn, &schema, "hourly", "ada").unwrap();
        schedule::remove(&mut conn, &schema, "hourly", "ada").unwrap();
        let party = Batch::new("party")
            .add(&note("a"))
            .add(&note("b"))
            .enqueue(&mut conn)
            .unwrap();
        batch::cancel(&mut conn, &schema, party.id, Cancel::Hard, "eve", "rain").unwrap();
        let of_batch = format!("eve cancel Batch({}): rain", party.id);
        let all = [
            r#"ada pause Queue("mail"): no paper"#,
            "ada pause All: ",
            r#"ada pause Kind("note"): ink"#,
            r#"grace resume Queue("mail")"#,
            r#"ada pause Schedule("hourly")"#,
            r#"ada resume Schedule("hourly")"#,
            r#"ada remove Schedule("hourly")"#,
            &of_batch,
            "eve cancel job 0-1: rain",
            "eve cancel job 0-1: rain",
        ];
        assert_eq!(told(&mut conn, &ActionFilter::new()), all);
    }
);

conformance!(
    fn of_many_jobs_those_that_were_changed_have_a_record_each(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let completed = note("done").enqueue(&mut conn).unwrap().id();
        run(&mut conn, |_, lease| lease.finish());
        let ids: Vec<i64> = (0..600)
            .map(|n| note(n.to_string()).enqueue(&mut conn).unwrap().id())
            .collect();
        let (rows, _) = claim_served(&mut conn, &[served("default", "note", 1)], 250);
        let running = rows.len() as u64;
        let asked = manage::cancel_all(&mut conn, &schema, &Filter::new(), Cancel::Soft, "ada", "off").unwrap();
        assert_eq!(asked, 600);
        let lines = told(&mut conn, &ActionFilter::new());
        assert!(lines.iter().all(|line| line.starts_with("ada ")), "{lines:?}");
        assert_eq!(count(db), 600);
        let requests = "SELECT count(*) FROM leasehold.actions WHERE action = 'request cancel' AND generation = 1 AND new_generation = 1";
        assert_eq!(db.integer(requests), i64::try_from(running).unwrap());
        assert_eq!(running, 250);

        let cancelled = Filter::new().state(State::Cancelled);
        let back = manage::requeue_all(&mut conn, &schema, &cancelled, "ada").unwrap();
        assert_eq!(back.requeued, 600 - running);
        let discarded = manage::discard_all(&mut conn, &schema, &Filter::new(), "ada", "off").unwrap();
        assert_eq!(discarded, 600);
        assert_eq!(count(db), i64::try_from(600 + (600 - running) + 600).unwrap());
        let last = ActionFilter::new().job(ids[599]);
        assert_eq!(
            told(&mut conn, &last),
            [
                "ada cancel job 0-1: off",
                "ada requeue job 1-2",
                "ada discard job 2-3: off"
            ]
        );
        assert!(told(&mut conn, &ActionFilter::new().job(completed)).is_empty());
    }
);

conformance!(
    fn what_changes_nothing_is_not_recorded(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let id = note("done").enqueue(&mut conn).unwrap().id();
        run(&mut conn, |_, lease| lease.finish());
        for how in [Cancel::Soft, Cancel::Hard] {
            assert!(!manage::cancel(&mut conn, &schema, id, how, "ada", "late").unwrap());
            assert!(!manage::cancel(&mut conn, &schema, id + 1, how, "ada", "none").unwrap());
        }
        assert!(!manage::discard(&mut conn, &schema, id, "ada", "late").unwrap());
        manage::requeue(&mut conn, &schema, id, "ada").unwrap_err();
        manage::edit(&mut conn, &schema, id, 1, &Edit::new().priority(1), "ada").unwrap_err();
        assert_eq!(manage::forget_steps(&mut conn, &schema, id, "ada").unwrap(), 0);
        manage::forget_steps(&mut conn, &schema, id + 1, "ada").unwrap_err();
        assert!(!manage::resume(&mut conn, &schema, Scope::All, "ada").unwrap());
        assert!(!schedule::pause(&mut conn, &schema, "none", "ada").unwrap());
        assert!(!schedule::remove(&mut conn, &schema, "none", "ada").unwrap());
        batch::cancel(&mut conn, &schema, 4711, Cancel::Hard, "ada", "none").unwrap_err();
        assert_eq!(count(db), 0);

        // Somebody else has its unique key, or it is as it was asked to be.
        schedule::put(&mut conn, &schema, &Schedule::new("hourly", "@hourly").job(&note("n"))).unwrap();
        assert!(schedule::resume(&mut conn, &schema, "hourly", "ada").unwrap());
        let first = crate::unique::bill("a", 1).enqueue(&mut conn).unwrap().id();
        manage::cancel(&mut conn, &schema, first, Cancel::Hard, "ada", "twice").unwrap();
        crate::unique::bill("a", 1).enqueue(&mut conn).unwrap();
        manage::requeue(&mut conn, &schema, first, "eve").unwrap_err();
        assert_eq!(told(&mut conn, &ActionFilter::new()), ["ada cancel job 0-1: twice"]);
    }
);

conformance!(
    fn a_record_is_rolled_back_with_the_transaction_of_the_action(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let id = note("stays").enqueue(&mut conn).unwrap().id();
        let undone = conn.transaction(|conn| {
            manage::edit(conn, &schema, id, 0, &Edit::new().priority(2), "ada").unwrap();
            manage::cancel(conn, &schema, id, Cancel::Hard, "ada", "no").unwrap();
            manage::requeue_all(conn, &schema, &Filter::new().state(State::Cancelled), "ada").unwrap();
            manage::pause(conn, &schema, Scope::All, "ada", "no").unwrap();
            assert_eq!(told(conn, &ActionFilter::new()).len(), 4);
            Err::<(), _>(Error::RollbackTransaction)
        });
        assert_eq!(undone, Err(Error::RollbackTransaction));
        assert_eq!(standing(db, id), "ready generation=0 attempt=0");
        assert_eq!(count(db), 0);
    }
);

conformance!(
    fn an_action_that_cannot_be_recorded_does_not_happen(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let id = note("stays").enqueue(&mut conn).unwrap().id();
        db.sql("ALTER TABLE leasehold.actions RENAME TO elsewhere");
        manage::edit(&mut conn, &schema, id, 0, &Edit::new().priority(2), "ada").unwrap_err();
        manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ada", "no").unwrap_err();
        manage::pause(&mut conn, &schema, Scope::All, "ada", "no").unwrap_err();
        assert_eq!(standing(db, id), "ready generation=0 attempt=0");
        assert_eq!(manage::pauses(&mut conn, &schema).unwrap(), []);
    }
);

conformance!(
    fn the_name_of_who_acts_is_cut_to_what_is_kept(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let id = note("n").enqueue(&mut conn).unwrap().id();
        let long = format!("{}é\0", "x".repeat(254));
        manage::cancel(&mut conn, &schema, id, Cancel::Hard, &long, "no").unwrap();
        manage::pause(&mut conn, &schema, Scope::All, &"\0".repeat(10_000), "no").unwrap();
        let actions = inspect::actions(&mut conn, &schema, &ActionFilter::new().by(&long), None, 10).unwrap();
        assert_eq!(actions[0].by, "x".repeat(254));
        assert_eq!(manage::pauses(&mut conn, &schema).unwrap()[0].by, "\u{fffd}".repeat(85));
    }
);

conformance!(
    fn actions_are_read_page_by_page_the_newest_first(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        for n in 0..5 {
            let (by, reason) = (["ada", "grace"][n % 2], n.to_string());
            manage::pause(&mut conn, &schema, Scope::All, by, &reason).unwrap();
        }
        let id = note("n").enqueue(&mut conn).unwrap().id();
        for generation in 0..3 {
            manage::edit(&mut conn, &schema, id, generation, &Edit::new().priority(1), "ada").unwrap();
        }
        for (filter, pages) in [
            (ActionFilter::new(), vec![3, 3, 2]),
            (ActionFilter::new().by("ada"), vec![3, 3]),
            (ActionFilter::new().by("grace"), vec![2]),
            (ActionFilter::new().job(id), vec![3]),
        ] {
            let (mut seen, mut ids, mut before) = (Vec::new(), Vec::new(), None);
            loop {
                let page = inspect::actions(&mut conn, &schema, &filter, before, 3).unwrap();
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                seen.push(page.len());
                ids.extend(page.iter().map(|action| action.id));
            }
            assert_eq!(seen, pages, "{filter:?}");
            assert!(ids.windows(2).all(|two| two[0] > two[1]), "{ids:?}");
        }
    }
);

conformance!(
    fn old_actions_are_purged_the_oldest_first_and_no_more_than_asked_for(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        for n in ["a", "b", "c", "d"] {
            manage::pause(&mut conn, &schema, Scope::All, "ada", n).unwrap();
        }
        let of = |reason: &str| format!("reason = '{reason}'");
        db.set_time("leasehold.actions", "at", -3_600_000, &of("c"));
        db.set_time("leasehold.actions", "at", -7_200_000, &of("d"));
        db.set_time("leasehold.actions", "at", -1_800_000, &of("a"));
        assert_eq!(conn.purge_actions(&schema, 1_700_000, 2), Ok(2));
        let mut left = || {
            let actions = inspect::actions(&mut conn, &schema, &ActionFilter::new(), None, 9).unwrap();
            actions
                .into_iter()
                .filter_map(|action| action.reason)
                .collect::<Vec<_>>()
        };
        assert_eq!(left(), ["b", "a"]);
        assert_eq!(conn.purge_actions(&schema, 1_700_000, 2), Ok(1));
        assert_eq!(conn.purge_actions(&schema, 1_700_000, 2), Ok(0));
        assert_eq!(count(db), 1);
    }
);

conformance!(
    fn a_life_tells_who_did_what_to_the_job(db: &mut Db) {
        let (mut conn, schema) = (migrated(db), default_schema());
        let id = note("n").enqueue(&mut conn).unwrap().id();
        manage::edit(&mut conn, &schema, id, 0, &Edit::new().priority(1), "ada").unwrap();
        manage::cancel(&mut conn, &schema, id, Cancel::Hard, "grace", "no").unwrap();
        let life = inspect::life(&mut conn, &schema, id).unwrap().unwrap();
        let did = life.moments.iter().filter_map(|moment| match &moment.what {
            Happening::Acted(action) => Some(format!("{} {}", action.by, action.action)),
            Happening::Ended { state, .. } => Some(state.to_string()),
            _ => None,
        });
        assert_eq!(did.collect::<Vec<_>>(), ["ada edit", "grace cancel", "cancelled"]);
    }
);
