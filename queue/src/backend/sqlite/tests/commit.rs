//! The mark of a commit, the write lock, and the time under it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use diesel::SqliteConnection;
use diesel::connection::{Connection, SimpleConnection};
use diesel::r2d2::R2D2Connection;

use super::{Database, OneConnection, enqueue_and_claim, state, written};
use crate::backend::sqlite::{now_ms, write};
use crate::backend::{CommitStatements, Connect, ConnectionSettings, LeaseStatements, Ownership, SettleStatements};
use crate::commit::{depth, roll_back_to};
use crate::handler::JobError;
use crate::lease::Fence;
use crate::schema::Schema;

fn write_row(tx: &mut SqliteConnection) -> Result<(), JobError> {
    tx.batch_execute("INSERT INTO written DEFAULT VALUES")?;
    Ok(())
}

#[test]
fn a_closure_that_ends_its_transaction_completes_nothing_and_leaves_a_usable_connection() {
    let database = Database::new();
    let mut other = database.connect();
    let ends = [
        ("COMMIT", 1),
        ("ROLLBACK", 0),
        ("COMMIT; BEGIN", 1),
        ("ROLLBACK; BEGIN IMMEDIATE; INSERT INTO written DEFAULT VALUES", 0),
        ("COMMIT; BEGIN; INSERT INTO written DEFAULT VALUES; SAVEPOINT other", 1),
        ("INSERT OR ROLLBACK INTO written (id) VALUES (1), (1)", 0),
    ];
    for (raw, rows) in ends {
        let held = enqueue_and_claim(&mut other);
        let mut slot = OneConnection::new(&database);
        let before = written(&mut other);
        let answer = slot.commit(&held, |tx| {
            write_row(tx)?;
            // The last of them fails, and its error is swallowed.
            let _ = tx.batch_execute(raw);
            Ok(())
        });
        assert!(
            answer.unwrap_err().to_string().contains("ended the transaction itself"),
            "{raw}"
        );
        assert_eq!(state(&mut other, held.fence.id), "running", "{raw}");
        assert_eq!(
            written(&mut other) - before,
            rows,
            "{raw}: what the closure itself committed"
        );
        assert!(!slot.broken, "{raw}");
        assert!(!slot.conn.is_broken(), "{raw}");
        slot.commit(&held, write_row).unwrap();
        assert_eq!(state(&mut other, held.fence.id), "completed", "{raw}");
    }
}

#[test]
fn a_commit_in_a_test_transaction_is_a_savepoint_that_knows_its_end() {
    let database = Database::new();
    let mut slot = OneConnection::new(&database);
    slot.savepoint = true;
    slot.conn.begin_test_transaction().unwrap();
    let held = enqueue_and_claim(&mut slot.conn);
    slot.commit(&held, |_| Err(JobError::retry("no"))).unwrap_err();
    assert_eq!(state(&mut slot.conn, held.fence.id), "running");
    slot.commit(&held, write_row).unwrap();
    assert_eq!(state(&mut slot.conn, held.fence.id), "completed");
    assert_eq!(depth(&mut slot.conn).unwrap(), 1);

    let held = enqueue_and_claim(&mut slot.conn);
    let ended = slot.commit(&held, |tx| Ok(tx.batch_execute("ROLLBACK")?));
    assert!(ended.unwrap_err().to_string().contains("ended the transaction itself"));
    assert!(slot.broken, "its outer transaction is gone, so it must not be used on");
}

#[test]
fn a_panic_in_a_commit_frees_the_write_lock_and_the_gate() {
    let database = Database::new();
    let mut other = database.impatient();
    let held = enqueue_and_claim(&mut other);
    let mut slot = OneConnection::new(&database);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        slot.commit(&held, |tx| {
            write_row(tx)?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(written(&mut other), 0);
    slot.gate
        .hold(|| other.heartbeat(&Schema::default(), &[held.fence]))
        .unwrap();
}

#[test]
fn a_busy_database_is_an_error_and_the_same_statement_succeeds_later() {
    let database = Database::new();
    let (mut holder, mut conn) = (database.connect(), database.impatient());
    let held = enqueue_and_claim(&mut conn);
    holder.begin_write().unwrap();
    let busy = conn.heartbeat(&Schema::default(), &[held.fence]).unwrap_err();
    assert!(busy.to_string().contains("locked"), "{busy}");
    assert!(conn.finish(&Schema::default(), &[held.fence]).is_err());
    assert!(conn.begin_commit(None, &ConnectionSettings::default()).is_err());
    assert_eq!(depth(&mut conn).unwrap(), 0);
    roll_back_to(&mut holder, 0);
    assert_eq!(conn.heartbeat(&Schema::default(), &[held.fence]).unwrap().len(), 1);
    assert_eq!(conn.finish(&Schema::default(), &[held.fence]).unwrap(), [held.fence.id]);
}

#[test]
fn the_time_is_read_after_the_wait_for_the_write_lock() {
    let database = Database::new();
    let (mut holder, mut conn) = (database.connect(), database.connect());
    holder.begin_write().unwrap();
    let (begun, has_begun) = mpsc::channel();
    let waiting = thread::spawn(move || {
        begun.send(()).unwrap();
        write(&mut conn, |_, now| Ok(now)).unwrap()
    });
    has_begun.recv().unwrap();
    // No event tells that the other waits; if it does not yet, the test holds all the same.
    thread::sleep(Duration::from_millis(100));
    let freed = now_ms();
    roll_back_to(&mut holder, 0);
    assert!(waiting.join().unwrap() >= freed);
}

#[test]
fn a_lost_answer_is_resolved_under_the_write_lock() {
    let database = Database::new();
    let (mut holder, mut conn) = (database.connect(), database.connect());
    let Fence {
        id,
        generation,
        lease_token,
    } = enqueue_and_claim(&mut holder).fence;
    holder.begin_write().unwrap();
    let started = Instant::now();
    assert!(conn.begin_resolve().is_err());
    assert!(
        (900..9000).contains(&started.elapsed().as_millis()),
        "{:?}",
        started.elapsed()
    );
    roll_back_to(&mut holder, 0);
    conn.begin_resolve().unwrap();
    let row = conn.lock_ownership(&Schema::default(), id).unwrap();
    let ours = Ownership {
        state: "running".to_owned(),
        generation,
        lease_token: Some(lease_token.to_string()),
    };
    assert_eq!(row, Some(ours));
}
