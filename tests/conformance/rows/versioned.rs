//! Optimistic updates by a version.

use leasehold::rows::{VersionError, VersionedRow, update_if_unchanged};

use super::*;

diesel::table! { page (id) { id -> BigInt, title -> Text, body -> Nullable<Text>, views -> BigInt, version -> Integer } }

struct Page;

impl VersionedRow for Page {
    type Table = page::table;
    type Id = page::id;
    type Version = page::version;
}

#[derive(AsChangeset)]
#[diesel(table_name = page)]
struct Edit<'a> {
    title: Option<&'a str>,
    body: Option<Option<&'a str>>,
}

fn pages<D: TestDb>(db: &mut D) -> D::Connection {
    db.sql(
        "CREATE TABLE page (id bigint PRIMARY KEY, title text NOT NULL, body text, views bigint NOT NULL DEFAULT 0,
            version integer NOT NULL);
         INSERT INTO page (id, title, body, version) VALUES (1, 'one', 'text', 1), (2, 'two', 'text', 1)",
    );
    open(db)
}

fn row<D: TestDb>(db: &mut D, id: i64) -> String {
    let all = "title || '/' || coalesce(body, '-') || '/' || views || '/' || version";
    db.text(&format!("SELECT {all} FROM page WHERE id = {id}")).unwrap()
}

conformance!(
    fn a_change_is_made_under_the_version_that_was_seen(db: &mut Db) {
        let mut conn = pages(db);
        let edit = Edit {
            title: Some("it's"),
            body: Some(None),
        };
        assert_eq!(update_if_unchanged::<Page, _, _>(&mut conn, &1, 1, edit).unwrap(), 2);
        assert_eq!(row(db, 1), "it's/-/0/2");
        let counted = page::views.eq(page::views + 5);
        assert_eq!(update_if_unchanged::<Page, _, _>(&mut conn, &1, 2, counted).unwrap(), 3);
        assert_eq!(row(db, 1), "it's/-/5/3");
        // A changeset of nothing is a change all the same: somebody has looked and agreed.
        let nothing = Edit {
            title: None,
            body: None,
        };
        assert_eq!(update_if_unchanged::<Page, _, _>(&mut conn, &1, 3, nothing).unwrap(), 4);
        assert_eq!(
            (row(db, 1), row(db, 2)),
            ("it's/-/5/4".to_owned(), "two/text/0/1".to_owned())
        );
    }
);

conformance!(
    fn a_change_under_another_version_is_a_conflict_and_changes_nothing(db: &mut Db) {
        let mut conn = pages(db);
        update_if_unchanged::<Page, _, _>(&mut conn, &1, 1, page::title.eq("first")).unwrap();
        for seen in [0, 1, 3] {
            let error = update_if_unchanged::<Page, _, _>(&mut conn, &1, seen, page::title.eq("late")).unwrap_err();
            assert!(
                matches!(error, VersionError::Conflict { current: 2, seen: told } if told == seen),
                "{error:?}"
            );
        }
        assert_eq!(row(db, 1), "first/text/0/2");
        let error = update_if_unchanged::<Page, _, _>(&mut conn, &9, 1, page::title.eq("late")).unwrap_err();
        assert!(matches!(error, VersionError::Missing), "{error:?}");
    }
);

conformance!(
    fn a_change_takes_part_in_the_callers_transaction(db: &mut Db) {
        let mut conn = pages(db);
        let undone = conn.transaction(|tx| {
            assert_eq!(
                update_if_unchanged::<Page, _, _>(tx, &1, 1, page::title.eq("never")).unwrap(),
                2
            );
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert!(undone.is_err());
        assert_eq!(row(db, 1), "one/text/0/1");
    }
);

conformance!(
    fn s2_13_of_writers_at_once_each_version_is_changed_by_one(db: &mut Db) {
        pages(db);
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let mut conn = open(db);
                std::thread::spawn(move || {
                    let mut changed = 0;
                    while changed < 25 {
                        let seen: i32 = page::table.find(1).select(page::version).first(&mut conn).unwrap();
                        match update_if_unchanged::<Page, _, _>(
                            &mut conn,
                            &1,
                            seen.into(),
                            page::views.eq(page::views + 1),
                        ) {
                            Ok(_) => changed += 1,
                            Err(VersionError::Conflict { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(row(db, 1), "one/text/100/101");
    }
);
