use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use leasehold::{Job, Refusal, Worker};
use leasehold_tests::eventually;
use leasehold_tests::jobs::{App, SOON, Step, app};
use leasehold_tests::postgres::{Standby as _, cluster};
use leasehold_tests::proxy::Proxy;

/// A worker's jobs are unknown to the server that it comes back to: two are another worker's there, at the same generation,
/// and two are nobody's.
#[test]
fn workers_that_survive_the_promotion_of_a_standby_that_lagged_commit_nothing_that_is_not_theirs() {
    let mut primary = cluster();
    let mut conn = PgConnection::establish(&primary.url()).unwrap();
    leasehold::migrate(&mut conn).unwrap();
    conn.batch_execute("CREATE TABLE effects (n bigint NOT NULL)").unwrap();
    let standby = primary.standby();
    for n in 1..=4 {
        Step::waiting(n).enqueue(&mut conn).unwrap();
    }
    primary.wait_for(&standby);
    standby.cut_off();
    let proxy = Proxy::start(&primary.url());
    let (survivor_app, survivor) = app();
    let survivors = Worker::<PgConnection, App>::new(proxy.url(), survivor_app).threads(4);
    let survivors = survivors.register::<Step>().start().unwrap();
    let told: Vec<_> = (0..4).map(|_| survivor.begun()).collect();
    primary.crash();
    standby.promote();
    proxy.redirect(&standby.url());
    let (other_app, other) = app();
    let others = Worker::<PgConnection, App>::new(standby.url(), other_app).threads(2);
    let others = others.register::<Step>().start().unwrap();
    let owned = [other.begun(), other.begun()];
    assert!(owned.iter().all(|owner| owner.generation == 1));
    told.into_iter().for_each(|stale| stale.go());
    for _ in 0..4 {
        let refusal = survivor.ended().refusal;
        assert!(matches!(refusal, Some(Refusal::DurabilityLoss { .. })), "{refusal:?}");
    }
    owned.into_iter().for_each(|owner| owner.go());
    // The two that were nobody's.
    let (left, also) = (survivor.into_channels().0, other.into_channels().0);
    for _ in 0..2 {
        crossbeam_channel::select! {
            recv(left) -> handler => handler.unwrap().go(),
            recv(also) -> handler => handler.unwrap().go(),
            default(SOON) => panic!("nobody runs what is left"),
        }
    }
    eventually(SOON, "all are completed", || {
        survivors.counts().completed + others.counts().completed == 4
    });
    let mut conn = PgConnection::establish(&standby.url()).unwrap();
    let effects: i64 = diesel::select(diesel::dsl::sql::<BigInt>("(SELECT count(*) FROM effects)"))
        .get_result(&mut conn)
        .unwrap();
    assert_eq!(effects, 4);
}
