//! The other end of a connection is gone, and nobody says so.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use diesel::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use leasehold::{Job, StartError, Worker};
use leasehold_tests::jobs::{App, Note, SOON, app};
use leasehold_tests::postgres::cluster;

use crate::probe::*;

/// A port on which connections are taken and nothing is ever said.
#[test]
fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://postgres@{}/db", silent.local_addr().unwrap());
    let (tell, told) = bounded(1);
    thread::spawn(move || {
        let started = Worker::<PgConnection, _>::new(url, ()).register::<Note>().start();
        tell.send(started.map(drop)).unwrap();
    });
    let started = told.recv_timeout(SOON).expect("it gives up");
    assert!(matches!(started, Err(StartError::Connect(_))), "{started:?}");
}

/// A port that leads to the socket of a server.
fn port_of(socket: String) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = UnixStream::connect(&socket) else {
                return;
            };
            let (Ok(to_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else {
                return;
            };
            thread::spawn(move || pass(client, to_server));
            thread::spawn(move || pass(server, to_client));
        }
    });
    Ok(port)
}

fn pass(mut from: impl io::Read, mut to: impl io::Write + Close) {
    let _ = io::copy(&mut from, &mut to);
    to.close();
}

trait Close {
    fn close(&self);
}

impl Close for TcpStream {
    fn close(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl Close for UnixStream {
    fn close(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

/// For each connection of this machine to the port: in how many hundredths of a second the kernel next asks whether the
/// other end lives; `None` where it never will.
#[cfg(target_os = "linux")]
fn next_questions(port: u16) -> Vec<Option<u64>> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let to = format!(":{port:04X}");
    let established = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = established.filter(|fields| fields[2].ends_with(&to) && fields[3] == "01");
    ours.map(|fields| {
        let (timer, when) = fields[5].split_once(':').unwrap();
        // 1 is a transmission that is not acknowledged yet, 2 is what keeps alive.
        (timer != "00").then(|| u64::from_str_radix(when, 16).unwrap())
    })
    .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn every_connection_of_a_worker_asks_whether_the_other_end_lives() {
    let cluster = cluster();
    leasehold::migrate(&mut PgConnection::establish(&cluster.url()).unwrap()).unwrap();
    let socket = cluster.url().split_once("host=").unwrap().1.to_owned();
    let port = port_of(format!("{socket}/.s.PGSQL.5432")).unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable");
    let (app, remote) = app();
    let worker = Worker::<PgConnection, App>::new(url, app).threads(2);
    let running = worker.register::<leasehold_tests::jobs::Step>().start().unwrap();
    let mut conn = PgConnection::establish(&cluster.url()).unwrap();
    diesel::connection::SimpleConnection::batch_execute(&mut conn, "CREATE TABLE effects (n bigint NOT NULL)").unwrap();
    // One that commits, so that the pool has a connection, and one whose completion the settler writes.
    for (n, then) in [
        (1, leasehold_tests::jobs::Then::Commit),
        (2, leasehold_tests::jobs::Then::Finish),
    ] {
        leasehold_tests::jobs::Step::now(n, then).enqueue(&mut conn).unwrap();
        remote.begun();
    }
    eventually(SOON, "both are completed", || running.counts().completed == 2);
    // Claimer, settler, heartbeat, listener and the pool's one.
    eventually(SOON, "all are connected", || next_questions(port).len() >= 5);
    eventually(SOON, "each is asked within twenty seconds", || {
        next_questions(port)
            .iter()
            .all(|when| when.is_some_and(|when| when <= 2000))
    });
}

/// Whoever disappears in the middle of a commit keeps its locks no longer than that.
#[test]
fn a_commits_transaction_may_not_idle_for_ever() {
    let db = leasehold_tests::postgres::database();
    probe("").enqueue(&mut migrated(&db)).unwrap();
    let (tell, told) = bounded(1);
    let worker = worker(&db, move |_, lease| {
        lease.commit(|tx| {
            let setting = "SELECT current_setting('idle_in_transaction_session_timeout')";
            tell.send(diesel::dsl::sql::<Text>(setting).get_result::<String>(tx)?)?;
            Ok(())
        })
    });
    assert_eq!(worker.run_until_empty().unwrap().counts.completed, 1);
    assert_eq!(told.recv_timeout(Duration::ZERO).unwrap(), "1min");
}
