use diesel::connection::SimpleConnection;
use leasehold::Job;

use crate::probe::*;

conformance!(
    fn a_handler_that_writes_in_its_read_uses_up_its_attempts(db: &mut Db) {
        let mut conn = migrated(db);
        db.sql("CREATE TABLE written (id integer)");
        let id = probe("").enqueue(&mut conn).unwrap().id();
        let running = worker(db, |_, mut lease| {
            lease.read(|conn| conn.batch_execute("INSERT INTO written VALUES (1)"))?;
            lease.finish()
        })
        .start()
        .unwrap();
        eventually(SOON, "it is discarded", || running.counts().discarded == 1);
        let standing = standing(db, id);
        assert!(standing.contains("read"), "{standing}");
    }
);
