use leasehold::{EnqueueOptions, Job, Worker};
use leasehold_tests::jobs::{Step, Then, app, prepare};
use leasehold_tests::{TestDb, capture_log, conformance};

/// What a line about a job has after its words, in this order: whether that is so, and the names of the further fields.
fn form<'a>(line: &'a str, queue: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (words, rest) = line.split_once(" job=")?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(&format!(" queue={queue:?} kind=\"step\" attempt="))?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(" generation=")?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let fields = rest.split(": ").next()?.split_whitespace();
    let names: Option<Vec<&str>> = fields.map(|field| Some(field.split_once('=')?.0)).collect();
    Some((words, names?))
}

conformance!(
    fn every_line_about_a_job_has_the_same_fields_and_how_long_its_handler_ran(db: &mut Db) {
        let mut conn = prepare(db);
        let log = capture_log();
        let queue = format!("lines-{}", Db::BACKEND);
        let options = EnqueueOptions::new().queue(&queue);
        let hows = [
            Then::Commit,
            Then::Finish,
            Then::FailUntil(2),
            Then::Snooze,
            Then::Discard,
            Then::Cancel,
        ];
        for (n, then) in (1..).zip(hows) {
            Step::now(n, then).enqueue_with(&mut conn, &options).unwrap();
        }
        let (app, _remote) = app();
        let worker = Worker::<Connection, _>::new(db.url(), app).queues([&queue]);
        worker.register::<Step>().run_until_empty().unwrap();
        let lines = log.with(&format!("queue={queue:?}"));
        let mut seen = std::collections::BTreeMap::new();
        for line in &lines {
            let Some((words, fields)) = form(&line.message, &queue) else {
                panic!("{}", line.message);
            };
            *seen.entry((words, fields.join(" "))).or_insert(0) += 1;
        }
        let expected = [
            (("begun", ""), 8),
            (("cancelled", "ran"), 1),
            (("claimed", "waited"), 8),
            (("completed", "ran"), 4),
            (("discarded", "ran"), 1),
            (("retried", "ran after"), 1),
            (("snoozed", "ran after"), 1),
        ];
        let seen: Vec<_> = seen
            .iter()
            .map(|((words, fields), count)| ((*words, fields.as_str()), *count))
            .collect();
        assert_eq!(seen, expected);
    }
);
