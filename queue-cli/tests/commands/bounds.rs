//! What a command reads is bounded, however many jobs there are.

use leasehold_tests::conformance;
use leasehold_tests::jobs::prepare;

use super::leasehold;
use super::screen::Screen;

/// Commands that look, and the most rows that each may read: what it may look at of each figure, and a little. A count to the end
/// of any table that is full, or of one of its states, is above that.
const LOOKS: &[(&[&str], i64)] = &[
    // 10,000 each that are ready, scheduled and blocked; 5,000 of each state in which jobs end.
    (&["stats"], 50_000),
    // 10,000 places, of which the first hundred are looked at.
    (&["list"], 25_000),
    (&["list", "--state", "ready"], 25_000),
    // 10,000 of each table are looked up, and as many in both.
    (&["list", "--queue", "nowhere"], 45_000),
    (&["list", "--kind", "nowhere", "--state", "discarded"], 45_000),
    (&["list", "--error", "nowhere"], 45_000),
    (&["list", "--older-than", "30d"], 45_000),
    (&["list", "--state", "running"], 500),
    (&["list", "--state", "completed"], 25_000),
    // 10,000 that are open and of each state in which jobs end.
    (&["list", "--batch", "1"], 50_000),
    (&["list", "--batch", "2"], 100),
    (&["actions"], 200),
    (&["actions", "--by", "nobody"], 200),
    (&["actions", "--job", "600001"], 200),
    (&["show", "600001"], 500),
    (&["show", "199993"], 500),
    (&["schedules", "list"], 100),
    (&["pauses"], 100),
    // 10,000 of each state.
    (&["batches"], 55_000),
    (&["batch", "1"], 55_000),
    (&["batch", "2"], 100),
    (&["doctor"], 2_000),
];

conformance! {
    #[skip(sqlite, "SQLite does not count the rows that it reads")]
    fn what_a_command_reads_does_not_grow_with_what_is_there(db: &mut Db) {
        drop(prepare(db));
        db.fill();
        let mut wrong = Vec::new();
        for (arguments, most) in LOOKS {
            let reads = db.reads_of(|db| {
                let said = leasehold(db, arguments);
                assert!(!said.out.is_empty(), "{arguments:?}: {}", said.error);
            });
            if reads.rows > *most || reads.pages > 4 * most {
                wrong.push(format!("{arguments:?}: {reads:?}, at the most {most}"));
            }
        }
        // One look: 10,000 each that are ready, scheduled and blocked, and the minute that has passed.
        let top = db.reads_of(|db| {
            let mut screen = Screen::open(db, &["top", "--interval", "1h"]);
            screen.shows("no route");
            screen.press("q");
            assert_eq!(screen.ends(), 0);
        });
        assert!(top.rows < 35_000 && wrong.is_empty(), "top: {top:?}\n{}", wrong.join("\n"));
    }
}
