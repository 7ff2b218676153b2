//! What became of jobs: one job's life, the newest failures, workflows as graphs, and the list of batches.

use std::time::Duration;

use leasehold::inspect::{self, Happening, Life, State};
use leasehold::manage::{self, Cancel};
use leasehold::{Batch, EnqueueOptions, Job, JobError, Workflow, batch};

use crate::support::*;

fn told(life: &Life) -> Vec<String> {
    assert!(life.moments.windows(2).all(|two| two[0].at <= two[1].at), "{life:?}");
    let moments = life.moments.iter().map(|moment| match &moment.what {
        Happening::Enqueued => "enqueued".to_owned(),
        Happening::Step { name, generation } => format!("step {name} under {generation}"),
        Happening::Progress(told) => format!("{} of {} under {}", told.done, told.total, told.generation),
        Happening::Failed(error) => format!("attempt {} failed: {}: {}", error.attempt, error.cause, error.error),
        Happening::Acted(action) => format!("{}: {}", action.by, action.action),
        Happening::Ended {
            state,
            attempt,
            generation,
            reason,
        } => {
            format!(
                "{state} in attempt {attempt} under {generation}: {}",
                reason.as_deref().unwrap_or("-")
            )
        }
        other => format!("{other:?}"),
    });
    moments.collect()
}

conformance!(
    fn a_life_tells_what_happened_to_a_job_in_order(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let id = note("a life").enqueue(&mut conn).unwrap().id();
        let life = |conn: &mut Connection| inspect::life(conn, &schema, id).unwrap().unwrap();
        assert_eq!(told(&life(&mut conn)), ["enqueued"]);
        // Times are whole milliseconds on SQLite: what is one after the other must not be at once.
        let apart = || std::thread::sleep(Duration::from_millis(3));
        apart();
        run(&mut conn, |_, mut lease| {
            lease.step("charge", |_| Ok::<_, std::io::Error>(1))?;
            apart();
            Err(JobError::retry("no answer"))
        });
        conn.move_run_at(&schema, id, 0).unwrap();
        let fence = claim_notes(&mut conn)[0];
        let held = life(&mut conn);
        assert_eq!(
            (held.job.state, held.lease.as_ref().unwrap().generation),
            (State::Running, fence.generation)
        );
        assert_eq!(held.lease.unwrap().cancel_requested_at, None);
        apart();
        manage::cancel(&mut conn, &schema, id, Cancel::Soft, "ops", "please").unwrap();
        let before = ["enqueued", "step charge under 1", "attempt 1 failed: error: no answer"];
        assert_eq!(told(&life(&mut conn)), [&before[..], &["ops: request cancel"]].concat());
        apart();
        manage::cancel(&mut conn, &schema, id, Cancel::Hard, "ops", "enough").unwrap();
        let ended = life(&mut conn);
        let end = format!("cancelled in attempt 2 under {}: enough", fence.generation + 1);
        assert_eq!(
            told(&ended),
            [&before[..], &["ops: request cancel", "ops: cancel", end.as_str()]].concat()
        );
        assert!(ended.lease.is_none() && ended.job.finished_at.is_some());
        assert!(inspect::life(&mut conn, &schema, id + 1).unwrap().is_none());
    }
);

conformance!(
    fn a_life_has_no_lease_of_another_job(db: &mut Db) {
        let mut conn = migrated(db);
        let waits = note("later")
            .enqueue_with(&mut conn, &EnqueueOptions::new().delay(Duration::from_secs(60)))
            .unwrap()
            .id();
        let held = claimed(&mut conn);
        assert!(held.id > waits);
        let life = inspect::life(&mut conn, &default_schema(), waits).unwrap().unwrap();
        assert!(
            life.lease.is_none() && life.job.scheduled && !life.job.blocked,
            "{life:?}"
        );
    }
);

conformance!(
    fn the_newest_failures_of_all_jobs_come_first(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        assert!(inspect::failures(&mut conn, &schema, 10).unwrap().is_empty());
        let mut ids = Vec::new();
        for text in ["one", "two", "three", "four"] {
            let (id, _) = run_new(&mut conn, |_, _| match text {
                "three" => Err(JobError::discard(text)),
                _ => Err(JobError::retry(text)),
            });
            ids.push(id);
        }
        for (index, id) in ids.iter().enumerate() {
            // The second one is the newest.
            let ago = [-4000, -1000, -2000, -3000][index];
            db.set_time("leasehold.job_errors", "at", ago, &format!("job_id = {id}"));
        }
        let failures = inspect::failures(&mut conn, &schema, 3).unwrap();
        let told: Vec<_> = failures
            .iter()
            .map(|f| (f.job, f.error.error.as_str(), f.error.attempt))
            .collect();
        assert_eq!(told, [(ids[1], "two", 1), (ids[2], "three", 1), (ids[3], "four", 1)]);
        assert!(
            failures
                .iter()
                .all(|f| f.kind == "note" && f.queue == "default" && f.error.cause == "error")
        );
        // What belongs to no job any more is left out.
        db.sql(&format!("DELETE FROM leasehold.finished_jobs WHERE id = {}", ids[2]));
        assert_eq!(inspect::failures(&mut conn, &schema, 3).unwrap().len(), 2);
    }
);

conformance!(
    fn a_workflow_is_told_as_a_graph_around_any_of_its_jobs(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let workflow = Workflow::new();
        let first = workflow.add(&note("first"));
        let left = workflow.add(&note("left")).after(first);
        let right = workflow.add(&note("right")).named("right").after(first).run_anyway();
        let last = workflow.add(&note("last")).after_all([left, right]);
        let ids = workflow.enqueue(&mut conn).unwrap();
        let alone = note("alone").enqueue(&mut conn).unwrap().id();
        let [first, left, right, last] = [first, left, right, last].map(|job| ids.id_of(job));
        run(&mut conn, |note, lease| match note.text.as_str() {
            "first" => lease.finish(),
            _ => lease.snooze(Duration::from_secs(60)),
        });
        for around in [first, left, right, last] {
            let graph = inspect::waits(&mut conn, &schema, around, 500).unwrap();
            assert_eq!(
                graph.jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
                [first, left, right, last]
            );
            let waits: Vec<_> = graph.waits.iter().map(|wait| (wait.job, wait.on)).collect();
            assert_eq!(waits, [(left, first), (right, first), (last, left), (last, right)]);
            assert_eq!(graph.jobs[0].state, State::Completed);
            assert!(graph.jobs[3].blocked && !graph.more, "{graph:?}");
            assert!(graph.waits.iter().any(|wait| wait.anyway) && graph.waits.iter().any(|wait| !wait.anyway));
        }
        let single = inspect::waits(&mut conn, &schema, alone, 500).unwrap();
        assert_eq!((single.jobs.len(), single.waits.len(), single.more), (1, 0, false));
        assert_eq!(
            inspect::waits(&mut conn, &schema, 999, 500).unwrap(),
            inspect::Waits::default()
        );
        let near = inspect::waits(&mut conn, &schema, first, 2).unwrap();
        assert_eq!((near.jobs.len(), near.waits.len(), near.more), (2, 1, true));
    }
);

conformance!(
    fn batches_are_listed_newest_first_with_what_became_of_their_jobs(db: &mut Db) {
        let mut conn = migrated(db);
        let schema = default_schema();
        let two = [note("finish"), note("discard")];
        let done = Batch::new("done")
            .add_all(&two, &EnqueueOptions::new())
            .enqueue(&mut conn)
            .unwrap()
            .id;
        run(&mut conn, |note, lease| match note.text.as_str() {
            "finish" => lease.finish(),
            _ => Err(JobError::discard("no")),
        });
        let three = [note("finish"), note("cancel"), note("later")];
        let open = Batch::new("open")
            .add_all(&three, &EnqueueOptions::new())
            .enqueue(&mut conn)
            .unwrap()
            .id;
        run(&mut conn, |note, lease| match note.text.as_str() {
            "finish" => lease.finish(),
            "cancel" => lease.cancel("no"),
            _ => lease.snooze(Duration::from_secs(60)),
        });
        let listed = batch::list(&mut conn, &schema, None, 10).unwrap();
        let told: Vec<_> = listed
            .iter()
            .map(|b| {
                format!(
                    "{} {}: {} {} {} {}",
                    b.id, b.name, b.open, b.completed, b.discarded, b.cancelled
                )
            })
            .collect();
        assert_eq!(told, [format!("{open} open: 1 1 0 1"), format!("{done} done: 0 1 1 0")]);
        assert!(listed[0].finished_at.is_none() && listed[1].finished_at.is_some());
        let page = |before, limit, conn: &mut Connection| -> Vec<i64> {
            batch::list(conn, &schema, before, limit)
                .unwrap()
                .iter()
                .map(|b| b.id)
                .collect()
        };
        assert_eq!(page(None, 1, &mut conn), [open]);
        assert_eq!(page(Some(open), 1, &mut conn), [done]);
        assert!(page(Some(done), 1, &mut conn).is_empty());
        // Counted to a bound while it is open, and exact once it has finished.
        db.sql(&format!(
            "UPDATE leasehold.batches SET completed = 1000000 WHERE id = {done}"
        ));
        let (now, limit) = (if Db::BACKEND == "postgres" { "now()" } else { "1" }, 1000);
        db.sql(&format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             INSERT INTO leasehold.jobs (queue, kind, payload, run_at, created_at, max_attempts, lease_ms, batch_id)
             SELECT 'default', 'other', '{{}}', {now}, {now}, 5, 60000, {open} FROM n"
        ));
        let listed = batch::list(&mut conn, &schema, None, limit).unwrap();
        assert_eq!(
            (listed[0].open.to_string(), listed[1].completed.to_string()),
            ("100+".to_owned(), "1000000".to_owned())
        );
    }
);
