//! The server's clock goes back and ahead while a backlog is worked off.

#[cfg(feature = "postgres")]
use super::*;

#[cfg(feature = "postgres")]
#[test]
fn no_job_starves_when_the_servers_clock_is_set() {
    use diesel::{Connection, PgConnection};
    use leasehold_tests::postgres::cluster_with_clock;

    let Some(cluster) = cluster_with_clock(&[]) else {
        leasehold_tests::skipped(
            "no_job_starves_when_the_servers_clock_is_set",
            "libfaketime is not installed",
        );
        return;
    };
    let connect = || PgConnection::establish(&cluster.url()).unwrap();
    let (mut conn, mut feeder) = (connect(), connect());
    leasehold::migrate(&mut conn).unwrap();
    let (book, over) = (Book::default(), AtomicBool::new(false));
    let running = worker::<PgConnection>(&cluster.url(), &book, 2, Claims::Adaptive);
    let ended = std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| feed(&mut feeder, Duration::from_millis(1), &over));
        let mut numbers = Vec::new();
        for (n, seconds) in (0..).zip([0, 3, -3600, 7, -20]) {
            cluster.set_clock(seconds);
            let before = running.counts().completed;
            eventually(SOON, "the backlog is worked off", || {
                running.counts().completed > before + 100
            });
            let one = One {
                n,
                first: First::Finishes,
                takes: Duration::ZERO,
            };
            one.enqueue(&mut conn).unwrap();
            numbers.push(n);
        }
        all_are_done(&book, &numbers)
    });
    assert_eq!(ended, Ok(()));
}
