//! Each file once, whoever imports it and how often.

use leasehold_tests::{TestDb as _, conformance};

use crate::program::{Folder, generated_records, records, run, said, shipped_data, start};

conformance! {
    fn the_shipped_data_is_imported_once(db: &mut Db) {
        let data = shipped_data();
        let first = run(db, &[&data]);
        assert_eq!((first.status.code(), first.totals()), (Some(0), [4, 4, 0, 0, 1461]), "{first:?}");
        let second = run(db, &[&data]);
        assert_eq!((second.status.code(), second.totals()), (Some(0), [4, 0, 4, 0, 1461]), "{second:?}");

        let day = r#"{"date":"2012-01-02","precipitation":"10.9","temp_max":"10.6","temp_min":"2.8","wind":"4.5","weather":"rain"}"#;
        assert_eq!(records(db)[1], day);
        assert_eq!(db.integer("SELECT count(*) FROM imported_rows WHERE line = 3"), 4);
        assert_eq!(db.integer("SELECT sum(rows) FROM imported_files"), 1461);
        assert_eq!(db.integer("SELECT min(length(content_hash)) FROM imported_files"), 64);
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs"), 4);
    }
}

conformance! {
    fn a_file_given_twice_or_by_another_way_is_one_file(db: &mut Db) {
        let folder = Folder::generated(2, 3);
        let file = folder.path().join("0000.csv");
        let roundabout = folder.path().join("..").join(folder.path().file_name().unwrap()).join("0001.csv");
        let said = run(db, &[&file, folder.path(), &roundabout]);
        assert_eq!((said.status.code(), said.totals()), (Some(0), [2, 2, 0, 0, 6]), "{said:?}");
    }
}

conformance! {
    fn the_rows_of_a_changed_file_are_replaced(db: &mut Db) {
        let folder = Folder::generated(2, 3);
        run(db, &[folder.path()]);
        folder.write("0000.csv", "file,row\nnew,1\n");
        let said = run(db, &[folder.path()]);
        assert_eq!((said.status.code(), said.totals()), (Some(0), [2, 1, 1, 0, 4]), "{said:?}");
        assert_eq!(records(db)[0], r#"{"file":"new","row":"1"}"#);
        assert_eq!(db.integer("SELECT count(*) FROM imported_rows"), 4);
    }
}

conformance! {
    fn processes_at_once_end_when_all_files_are_imported(db: &mut Db) {
        let folder = Folder::generated(40, 20);
        let programs = [(); 3].map(|()| start(db, &[folder.path()]));
        for program in programs {
            let said = said(program);
            let [files, imported, already_there, failed, rows] = said.totals();
            assert_eq!((said.status.code(), files, failed, rows), (Some(0), 40, 0, 800), "{said:?}");
            assert_eq!(imported + already_there, 40);
        }
        assert_eq!(records(db), generated_records(40, 20));
        assert_eq!(db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state <> 'completed'"), 0);
    }
}
