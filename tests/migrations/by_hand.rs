//! The printed SQL, run by people.

use leasehold::migrate::{MigrationSql, Migrations};
use leasehold::{Schema, migrate};
use leasehold_tests::{TestDb, conformance};

use crate::catalog;

fn joined(migrations: &[MigrationSql], text: impl Fn(&MigrationSql) -> &str) -> String {
    migrations.iter().map(text).collect::<Vec<_>>().join("\n")
}

conformance! {
    fn printed_sql_run_by_hand_makes_the_same_tables_and_leaves_nothing_pending(db: &mut Db) {
        let printed = Migrations::new().sql::<Connection>();
        db.sql(&format!("BEGIN; {} COMMIT;", joined(&printed, |migration| &migration.up)));
        let mut conn = db.connect();
        assert!(migrate(&mut conn).unwrap().is_empty());
        Migrations::new().check(&mut conn).unwrap();

        let mut migrated = Db::new();
        migrate(&mut migrated.connect()).unwrap();
        assert_eq!(catalog(db), catalog(&mut migrated));

        let reverted: Vec<MigrationSql> = printed.into_iter().rev().collect();
        db.sql(&format!("BEGIN; {} COMMIT;", joined(&reverted, |migration| &migration.down)));
        assert_eq!(catalog(db), Vec::<String>::new());
    }
}

conformance! {
    fn printed_sql_for_another_schema_names_that_schema_only(db: &mut Db) {
        let migrations = Migrations::in_schema(&Schema::named("billing").unwrap());
        let printed = migrations.sql::<Connection>();
        for migration in &printed {
            assert!(migration.name.starts_with(&format!("{}_", migration.version)));
            assert!(!migration.up.contains("leasehold") && !migration.down.contains("leasehold"), "{}", migration.up);
        }
        db.sql(&joined(&printed, |migration| &migration.up));
        migrations.check(&mut db.connect()).unwrap();
        assert_eq!(catalog(db), Vec::<String>::new());
    }
}
