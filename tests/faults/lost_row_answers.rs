//! A row's commit whose answer is lost on the way, through a proxy.

use diesel::{Connection, PgConnection};
use leasehold::rows::{CommitError, InDoubt, Resolution, RowLease, RowRefusal};
use leasehold_tests::issues::pg::Issue;
use leasehold_tests::issues::{articles, claim_one, expire, issue, issues, write_article};
use leasehold_tests::postgres::Database;
use leasehold_tests::proxy::{Fault, Proxy};
use leasehold_tests::{TestDb, postgres};

const A_COMMITS_BEGIN: &str = "in_commit.leasehold";

/// A commit through the proxy that does not learn what became of it; with another connection.
fn in_doubt(db: &mut Database, status: &str, fault: Fault) -> (PgConnection, InDoubt<Issue>, Proxy) {
    let mut conn = issues(db, &[1]);
    let lease: RowLease<Issue> = claim_one(&mut conn, 1);
    let proxy = Proxy::start(&db.url());
    let mut through = PgConnection::establish(proxy.url()).unwrap();
    proxy.once_after(A_COMMITS_BEGIN, "COMMIT", fault);
    let error = lease.commit(&mut through, status, |tx| Ok(write_article(tx, 1)?));
    proxy.strikes();
    let Err(CommitError::Unknown(in_doubt)) = error else {
        panic!("{error:?}")
    };
    // The connection that is gone cannot tell.
    let Resolution::Unknown(in_doubt) = in_doubt.resolve(&mut through) else {
        panic!("it is gone")
    };
    (conn, in_doubt, proxy)
}

#[test]
fn a_commit_that_landed_is_found_committed() {
    let mut db = postgres::database();
    let (mut conn, in_doubt, _proxy) = in_doubt(&mut db, "DONE", Fault::LoseAnswer);
    assert!(matches!(in_doubt.resolve(&mut conn), Resolution::Committed));
    assert_eq!((issue(&mut db, 1).as_str(), articles(&mut db)), ("DONE/1 token", 1));
}

#[test]
fn a_commit_that_never_arrived_gives_the_lease_back() {
    let mut db = postgres::database();
    let (mut conn, in_doubt, _proxy) = in_doubt(&mut db, "DONE", Fault::LoseRequest);
    let Resolution::NotCommitted(lease) = in_doubt.resolve(&mut conn) else {
        panic!("nothing was written")
    };
    assert_eq!(articles(&mut db), 0);
    lease.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
    assert_eq!((issue(&mut db, 1).as_str(), articles(&mut db)), ("DONE/1 token", 1));
}

#[test]
fn a_half_open_commit_stays_unknown_until_its_lock_is_free() {
    let mut db = postgres::database();
    let (mut conn, in_doubt, proxy) = in_doubt(&mut db, "DONE", Fault::HalfOpen);
    // A plain read says that it runs now, which must not be taken for "not committed".
    assert_eq!(issue(&mut db, 1), "IN_PROGRESS/1 token until");
    let Resolution::Unknown(in_doubt) = in_doubt.resolve(&mut conn) else {
        panic!("the row is locked")
    };
    proxy.heal();
    let mut resolution = in_doubt.resolve(&mut conn);
    while let Resolution::Unknown(in_doubt) = resolution {
        resolution = in_doubt.resolve(&mut conn);
    }
    assert!(matches!(resolution, Resolution::NotCommitted(_)), "{resolution:?}");
}

#[test]
fn a_row_that_was_taken_meanwhile_refuses() {
    let mut db = postgres::database();
    let (mut conn, in_doubt, _proxy) = in_doubt(&mut db, "DONE", Fault::LoseRequest);
    expire(&mut db, 1);
    let owner: RowLease<Issue> = claim_one(&mut conn, 1);
    let resolution = in_doubt.resolve(&mut conn);
    assert!(
        matches!(resolution, Resolution::Refused(RowRefusal::Lost { generation: 2 })),
        "{resolution:?}"
    );
    owner.commit(&mut conn, "DONE", |tx| Ok(write_article(tx, 1)?)).unwrap();
    assert_eq!(articles(&mut db), 1);
}
