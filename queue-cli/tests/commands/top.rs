//! The live view, in a terminal.

use leasehold::__private::{NewProgress, ResultStatements};
use leasehold::inspect::State;
use leasehold::{Job, Schema};
use leasehold_tests::jobs::{claim_and_die, job, prepare};
use leasehold_tests::{TestDb, conformance};
use serde::{Deserialize, Serialize};

use super::screen::{COLUMNS, ROWS, Screen};
use super::{leasehold, mail, work};

const TOP: [&str; 5] = ["top", "--interval", "100ms", "--by", "ann"];

/// Held for so long that no test sees the end of its lease.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "scan", queue = "paper", lease = "10h")]
struct Scan {}

conformance! {
    fn queues_leases_progress_and_failures_fit_a_terminal_of_80_columns(db: &mut Db) {
        let mut conn = prepare(db);
        mail("no route").enqueue(&mut conn).unwrap();
        work(db);
        for _ in 0..3 {
            mail("").enqueue(&mut conn).unwrap();
        }
        let id = Scan {}.enqueue(&mut conn).unwrap().id();
        let (_, fence) = claim_and_die::<Scan, _>(&mut conn, true);
        let progress = NewProgress { done: 40, total: 100, text: "pages scanned".to_owned() };
        conn.store_progress(&Schema::default(), &fence, &progress).unwrap();

        let screen = Screen::open(db, &TOP);
        let queue = screen.line("mail  ");
        assert_eq!(queue.split_whitespace().skip(1).take(4).collect::<Vec<_>>(), ["3", "0", "0", "0"], "{queue}");
        let running = screen.line("pages scanned");
        for part in [&id.to_string(), "scan", "paper", "1/20", "9h/10h", "40/100"] {
            assert!(running.contains(part), "{part} is not in: {running}");
        }
        let failed = screen.line("no route");
        assert!(failed.contains("mail") && failed.contains("ago"), "{failed}");
        screen.comes("the second in which a job was discarded", |text| {
            text.lines().any(|line| line.starts_with("discarded") && line.contains('█'))
        });

        mail("").enqueue(&mut conn).unwrap();
        screen.comes("the fourth job", |text| text.lines().any(|line| line.starts_with("mail") && line.contains("4  ")));
        db.set_time("leasehold.jobs", "lease_until", -1000, "state = 'running'");
        screen.shows("expired");
    }
}

conformance! {
    fn a_queue_is_paused_and_resumed_after_a_question(db: &mut Db) {
        let mut conn = prepare(db);
        mail("").enqueue(&mut conn).unwrap();
        let pauses = "SELECT count(*) FROM leasehold.pauses";
        let mut screen = Screen::open(db, &TOP);
        screen.shows("mail");
        screen.press("p");
        screen.shows("Pause the queue mail? [y/N]");
        screen.press("n");
        screen.shows("nothing was done");
        assert_eq!(db.integer(pauses), 0);

        screen.press("p");
        screen.shows("Pause the queue mail? [y/N]");
        screen.press("y");
        screen.shows("the queue mail is paused");
        screen.comes("a paused queue", |text| text.lines().any(|line| line.starts_with("mail") && line.contains("paused")));
        assert_eq!(leasehold::manage::pauses(&mut conn, &Schema::default()).unwrap()[0].by, "ann");
        screen.press("p");
        screen.shows("Resume the queue mail? [y/N]");
        screen.press("y");
        screen.shows("the queue mail is resumed");
        assert_eq!(db.integer(pauses), 0);
    }
}

conformance! {
    /// The owner of a running job is asked to stop by a soft cancel, and fenced out by a hard one.
    fn a_running_job_is_asked_to_stop_or_cancelled_at_once(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Scan {}.enqueue(&mut conn).unwrap().id();
        let (_, fence) = claim_and_die::<Scan, _>(&mut conn, true);
        let mut screen = Screen::open(db, &TOP);
        screen.shows("10h");
        screen.press("c");
        screen.shows("Tab goes there");
        screen.press("\tc");
        screen.shows(&format!("Ask job {id} to stop? [y/N]"));
        screen.press("y");
        screen.shows(&format!("job {id} is asked to stop"));
        screen.comes("the mark of the request", |text| text.lines().any(|line| line.contains("scan") && line.contains("to stop")));
        let asked = job(&mut conn, id);
        assert_eq!((asked.state, asked.cancel_requested), (State::Running, true));

        screen.press("C");
        screen.shows(&format!("Cancel job {id} at once?"));
        screen.press("y");
        screen.shows(&format!("job {id} is cancelled"));
        let ended = job(&mut conn, id);
        assert_eq!((ended.state, ended.generation), (State::Cancelled, fence.generation + 1));
        assert_eq!(ended.reason.as_deref(), Some("cancelled in top"));
        screen.comes("an empty pane", |text| !text.contains("10h"));
        screen.press("C");
        screen.press("q");
        assert_eq!(screen.ends(), 0);
    }
}

conformance! {
    fn a_discarded_job_is_requeued(db: &mut Db) {
        let mut conn = prepare(db);
        mail("no stamp").enqueue(&mut conn).unwrap();
        work(db);
        let last = mail("no route").enqueue(&mut conn).unwrap().id();
        work(db);
        let mut screen = Screen::open(db, &TOP);
        screen.shows("no route");
        // The newest is the first.
        screen.press("\t\tr");
        screen.shows(&format!("Put job {last} back to ready? [y/N]"));
        screen.press("y");
        screen.shows(&format!("job {last} is ready again"));
        assert_eq!(job(&mut conn, last).state, State::Ready);
        screen.press("r");
        screen.shows("[y/N]");
        screen.press("y");
        screen.shows("is ready: ");
        screen.press("\x1b[Br");
        screen.shows(&format!("Put job {} back to ready? [y/N]", last - 1));
    }
}

conformance! {
    /// The text of an error, and the name of a queue, may be anybody's.
    fn no_text_drives_the_terminal_of_the_view(db: &mut Db) {
        let mut conn = prepare(db);
        mail("\u{1b}[2Jgone\u{202e}").enqueue(&mut conn).unwrap();
        work(db);
        let screen = Screen::open(db, &TOP);
        screen.shows("\\u{1b}[2Jgone\\u{202e}");
    }
}

conformance! {
    fn the_terminal_is_given_back_and_may_be_small(db: &mut Db) {
        let mut conn = prepare(db);
        mail("").enqueue(&mut conn).unwrap();
        let mut screen = Screen::open(db, &TOP);
        screen.shows("q quit");
        assert!(screen.is_taken());
        for (rows, columns) in [(8, 30), (2, 5), (ROWS, COLUMNS)] {
            screen.resize(rows, columns);
        }
        screen.shows("q quit");
        screen.press("q");
        assert_eq!(screen.ends(), 0);
        screen.comes("the shell's screen", |text| !text.contains("q quit"));
        assert!(!screen.is_taken());
    }
}

conformance! {
    /// A look may fail; a database that stays away is told, and by the exit code, too.
    fn a_database_that_goes_ends_the_view(db: &mut Db) {
        prepare(db);
        let mut screen = Screen::open(db, &TOP);
        screen.shows("q quit");
        db.sql("ALTER TABLE leasehold.pauses RENAME TO gone");
        assert_eq!(screen.ends(), 4);
        screen.shows("leasehold: the database: ");
        assert!(!screen.is_taken());
    }
}

conformance! {
    fn a_view_needs_a_terminal(db: &mut Db) {
        prepare(db);
        leasehold(db, &["top"]).refused(2, "needs a terminal");
        let mut screen = Screen::open(db, &["top", "--json"]);
        assert_eq!(screen.ends(), 2);
        leasehold(db, &["top", "--interval", "1ms"]).refused(2, "100ms");
    }
}
