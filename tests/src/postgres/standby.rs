//! A standby of a cluster, that may be cut off and promoted: a failover that loses what had not arrived.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use super::Cluster;
use crate::answer::Integer;
use crate::eventually;
use crate::jobs::SOON;

/// What a cluster does with its standby, and as one.
pub trait Standby {
    /// Waits until the standby has all that this server has written.
    fn wait_for(&self, standby: &Self);
    /// As a standby: cuts it off from its primary. What that writes from now on never arrives.
    fn cut_off(&self);
    /// As a standby: makes it a primary, and waits until it writes.
    fn promote(&self);
}

impl Standby for Cluster {
    fn wait_for(&self, standby: &Self) {
        let written = integer(
            &self.url(),
            "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint AS value",
        );
        eventually(SOON, "the standby has it all", || {
            let arrived = "SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint AS value";
            integer(&standby.url(), arrived) >= written
        });
    }

    fn cut_off(&self) {
        let mut session = connect(&self.url());
        session
            .batch_execute("ALTER SYSTEM SET primary_conninfo = ''")
            .and_then(|()| session.batch_execute("SELECT pg_reload_conf()"))
            .expect("a superuser may cut it off");
        eventually(SOON, "the standby receives nothing", || {
            integer(&self.url(), "SELECT count(*) AS value FROM pg_stat_wal_receiver") == 0
        });
    }

    fn promote(&self) {
        connect(&self.url())
            .batch_execute("SELECT pg_promote(true, 60)")
            .expect("a superuser may promote it");
        eventually(SOON, "the standby is a primary", || {
            integer(&self.url(), "SELECT pg_is_in_recovery()::integer::bigint AS value") == 0
        });
    }
}

fn connect(url: &str) -> PgConnection {
    PgConnection::establish(url).expect("the server takes connections")
}

fn integer(url: &str, query: &str) -> i64 {
    let answer: Integer = diesel::sql_query(query)
        .get_result(&mut connect(url))
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    answer.value
}
