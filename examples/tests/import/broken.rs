//! Files that cannot be imported: told with line and reason, and no hindrance to the others.

use leasehold_tests::{TestDb as _, conformance};

use crate::program::{Folder, Said, generated_records, records, run};

#[track_caller]
fn assert_tells(said: &Said, file: &str, why: &str) {
    let line = said.output.lines().find(|line| line.contains(file));
    assert!(
        line.is_some_and(|line| line.contains(why)),
        "no {why:?} beside {file} in {}",
        said.output
    );
}

conformance! {
    fn broken_files_are_told_with_line_and_reason_and_the_others_land(db: &mut Db) {
        let folder = Folder::generated(3, 5);
        folder.write("short.csv", "a,b\n1,2\n3\n");
        folder.write("open-quote.csv", "a,b\n1,\"2\n3,4\n");
        folder.write("latin.csv", b"a,b\ncaf\xe9,1\n");
        folder.write("empty.csv", "");
        let first = run(db, &[folder.path()]);
        assert_eq!((first.status.code(), first.totals()), (Some(1), [7, 3, 0, 4, 15]), "{first:?}");
        assert_tells(&first, "short.csv", "line 3: 1 fields where the header has 2");
        assert_tells(&first, "open-quote.csv", "line 2: a quote that is never closed");
        assert_tells(&first, "latin.csv", "line 2: not UTF-8");
        assert_tells(&first, "empty.csv", "line 1: no header");
        assert_eq!(records(db), generated_records(3, 5));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'discarded' AND attempt = 1"), 4);

        folder.write("latin.csv", "a,b\ncafé,1\n");
        let second = run(db, &[folder.path()]);
        assert_eq!((second.status.code(), second.totals()), (Some(1), [7, 1, 3, 3, 16]), "{second:?}");
    }
}

conformance! {
    fn a_file_with_a_line_end_of_its_own_kind_in_a_field_is_whole(db: &mut Db) {
        let folder = Folder::new();
        folder.write("a.csv", "\u{feff}name,text\r\n\r\nx,\"1\r\n2 \"\"q\"\"\"\r\ny,\u{0}\r\n");
        let said = run(db, &[folder.path()]);
        assert_eq!((said.status.code(), said.totals()), (Some(0), [1, 1, 0, 0, 2]), "{said:?}");
        let expected = [r#"{"name":"x","text":"1\r\n2 \"q\""}"#, r#"{"name":"y","text":"\u0000"}"#];
        assert_eq!(records(db), expected);
        assert_eq!(db.integer("SELECT min(line) * 100 + max(line) FROM imported_rows"), 305);
    }
}
