//! Connections, the gate, and the wait for a change.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel::result::Error;

use super::{Database, new_job};
use crate::backend::sqlite::connect::PATIENCE_FOR_TURN;
use crate::backend::{Connect, ConnectionSettings, EnqueueStatements, ServerError};
use crate::commit::depth;
use crate::schema::Schema;

#[test]
fn a_read_cannot_write_and_leaves_the_connection_writable() {
    let database = Database::new();
    let mut conn = database.connect();
    let write = |conn: &mut SqliteConnection| conn.batch_execute("INSERT INTO written DEFAULT VALUES");
    for raw in ["", "COMMIT; ", "ROLLBACK; BEGIN; "] {
        let refused = conn
            .read_only(|conn| conn.batch_execute(raw).and_then(|()| write(conn)))
            .unwrap();
        assert!(refused.unwrap_err().to_string().contains("readonly"), "{raw}");
        assert_eq!(depth(&mut conn).unwrap(), 0, "{raw}");
        write(&mut conn).unwrap();
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        conn.read_only(|_| -> Result<(), Error> { panic!("on purpose") })
    }));
    assert!(panicked.is_err());
    write(&mut conn).unwrap();
}

#[test]
fn many_connections_open_a_new_file_at_once() {
    let database = Database::without_tables();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut conn = database.connect();
                assert_eq!(conn.check_server(false).unwrap(), Vec::<String>::new());
            });
        }
    });
}

#[test]
fn a_database_in_memory_and_a_weak_setting_are_told() {
    for url in [":memory:", "", "file::memory:?cache=shared", "file:some?mode=memory"] {
        let mut conn = SqliteConnection::connect(url, &ConnectionSettings::default()).unwrap();
        assert!(matches!(conn.check_server(true), Err(ServerError::InMemory)), "{url}");
    }
    let database = Database::new();
    let mut conn = database.connect();
    conn.batch_execute("PRAGMA synchronous = NORMAL; PRAGMA journal_mode = DELETE")
        .unwrap();
    assert_eq!(conn.check_server(false).unwrap().len(), 2);
    conn.batch_execute("PRAGMA synchronous = OFF").unwrap();
    assert!(matches!(conn.check_server(false), Err(ServerError::Unsafe { .. })));
    assert_eq!(conn.check_server(true).unwrap().len(), 2);
}

#[test]
fn every_address_of_a_file_has_the_same_gate() {
    let database = Database::new();
    let gate = SqliteConnection::write_gate(database.url()).lock.unwrap();
    let link = Database(database.0.with_extension("link"));
    std::os::unix::fs::symlink(&database.0, &link.0).unwrap();
    for url in [
        format!("file:{}", database.url()),
        format!("file:{}?cache=private", database.url()),
        link.url().to_owned(),
    ] {
        assert!(
            Arc::ptr_eq(&gate, &SqliteConnection::write_gate(&url).lock.unwrap()),
            "{url}"
        );
    }
    let other = Database::new();
    assert!(!Arc::ptr_eq(
        &gate,
        &SqliteConnection::write_gate(other.url()).lock.unwrap()
    ));
}

#[test]
fn a_commit_of_another_connection_ends_the_wait_even_if_it_came_before() {
    let database = Database::new();
    let (mut waiter, mut writer) = (database.connect(), database.connect());
    let (wake, woken) = crossbeam_channel::bounded(1);
    let mut seen = 0;
    waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));
    writer.insert(&Schema::default(), &[new_job()]).unwrap();
    waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));

    let returned = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));
            returned.store(true, Ordering::Release);
            waiter.wait_for_change(&mut seen, &woken, Duration::from_secs(60));
        });
        assert!(!returned.load(Ordering::Acquire));
        writer.insert(&Schema::default(), &[new_job()]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !returned.load(Ordering::Acquire) {
            assert!(Instant::now() < deadline, "the wait goes on");
            thread::yield_now();
        }
        wake.send(()).unwrap();
        waiting.join().unwrap();
    });
    let started = Instant::now();
    waiter.wait_for_change(&mut seen, &woken, Duration::from_millis(20));
    assert!(started.elapsed() >= Duration::from_millis(20));
}

#[test]
fn an_enqueue_waits_for_its_turn_but_not_for_ever() {
    let database = Database::new();
    let mut conn = database.connect();
    let took = SqliteConnection::write_gate(database.url()).hold(|| {
        std::thread::spawn(move || {
            let begun = Instant::now();
            enqueue_alone(&mut conn);
            begun.elapsed()
        })
        .join()
        .unwrap()
    });
    assert!(took >= PATIENCE_FOR_TURN, "{took:?}");
}

fn enqueue_alone(conn: &mut SqliteConnection) {
    let enqueued = crate::enqueue::insert(vec![new_job()], conn, &crate::EnqueueOptions::new());
    assert!(enqueued.unwrap()[0].is_new());
}
