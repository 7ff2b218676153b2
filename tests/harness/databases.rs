use diesel::connection::SimpleConnection;
use leasehold_tests::{TestDb, conformance};

conformance!(
    fn each_test_has_an_empty_database_of_its_own(db: &mut Db) {
        let mut other = Db::new();
        assert_ne!(db.url(), other.url());
        db.sql("CREATE TABLE mine (id integer)");
        // The same name again: the other database does not have it.
        other.sql("CREATE TABLE mine (id integer)");
        db.sql("INSERT INTO mine VALUES (1)");
        assert_eq!(other.integer("SELECT count(*) FROM mine"), 0);
        assert_eq!(db.integer("SELECT count(*) FROM mine"), 1);
    }
);

conformance!(
    fn connections_of_a_test_see_one_database(db: &mut Db) {
        let mut connection: Connection = db.connect();
        connection
            .batch_execute("CREATE TABLE shared (id integer, note text)")
            .unwrap();
        connection
            .batch_execute("INSERT INTO shared VALUES (1, NULL), (2, 'two')")
            .unwrap();
        assert_eq!(db.integer("SELECT sum(id) FROM shared"), 3);
        assert_eq!(
            db.texts("SELECT note FROM shared ORDER BY id"),
            [None, Some("two".to_owned())]
        );
        assert_eq!(db.text("SELECT note FROM shared WHERE id = 2").as_deref(), Some("two"));
    }
);

conformance!(
    /// The one statement that differs is `CREATE SCHEMA`, which SQLite has not.
    fn tables_of_the_queue_have_one_notation(db: &mut Db) {
        if Db::BACKEND == "postgres" {
            db.sql("CREATE SCHEMA leasehold");
        }
        db.sql("CREATE TABLE leasehold.jobs (id integer)");
        db.sql("INSERT INTO leasehold.jobs VALUES (7)");
        assert_eq!(db.integer("SELECT id FROM leasehold.jobs"), 7);
    }
);

conformance!(
    #[skip(sqlite, "SQLite ends no connection from outside")]
    fn terminated_connections_are_those_of_the_test_alone(db: &mut Db) {
        let mut connection = db.connect();
        let mut other = Db::new();
        assert_eq!(db.terminate_connections(), 1);
        assert!(connection.batch_execute("SELECT 1").is_err());
        other.sql("SELECT 1");
        db.sql("SELECT 1");
    }
);
