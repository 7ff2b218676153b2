//! A server of the run's own, with a proxy in front.

use std::time::Duration;

use diesel::prelude::*;
use diesel::result::QueryResult;
use leasehold_tests::postgres::{Cluster, cluster_with, cluster_with_clock};
use leasehold_tests::proxy::{Fault, Proxy};
use rustix::process::{Pid, Signal, kill_process};

use super::{Ask, Site};
use crate::settings::Settings;

/// A server and what stands in front of it.
#[derive(Debug)]
pub(crate) struct Postgres {
    cluster: Cluster,
    proxy: Proxy,
    /// Nobody goes round the proxy.
    all_through: bool,
    /// How far the server's clock is from the machine's, in seconds, if it can be set.
    clock: Option<i64>,
}

/// Part of a statement, and what may become of it on its way.
const LOST: [(&str, Fault); 12] = [
    ("COMMIT", Fault::LoseAnswer),
    ("COMMIT", Fault::LoseRequest),
    ("COMMIT", Fault::HalfOpen),
    ("COMMIT", Fault::Stall(Duration::from_millis(1500))),
    ("state = 'running', generation", Fault::LoseAnswer),
    ("state = 'running', generation", Fault::LoseRequest),
    ("state = 'running', generation", Fault::HalfOpen),
    (
        "state = 'running', generation",
        Fault::Stall(Duration::from_millis(1200)),
    ),
    ("leasehold.finished_jobs", Fault::LoseAnswer),
    ("leasehold.finished_jobs", Fault::HalfOpen),
    ("INSERT INTO effects", Fault::Stall(Duration::from_millis(1500))),
    ("INSERT INTO effects", Fault::LoseAnswer),
];

impl Postgres {
    pub(crate) fn start(settings: &Settings) -> Self {
        let mut options = Vec::new();
        if settings.lazy_commits {
            // The longer the writer of the log sleeps, the more a crash takes back.
            options.extend(["synchronous_commit=off", "wal_writer_delay=2s"]);
        }
        let cluster = if settings.clock {
            cluster_with_clock(&options).expect("libfaketime is installed")
        } else {
            cluster_with(&options)
        };
        let proxy = Proxy::start(&cluster.url());
        if settings.lazy_claims {
            // What the fence has to bear without it: the claim's making itself durable, taken out of its text.
            proxy.rewrite("WHEN 'off' THEN 'on'", "WHEN 'off' THEN 'off'");
        }
        Self {
            cluster,
            proxy,
            all_through: settings.lazy_claims,
            clock: settings.clock.then_some(0),
        }
    }

    fn ask<T: Default>(&self, question: impl FnOnce(&mut PgConnection) -> QueryResult<T>) -> T {
        let asked = self.connect().map(|mut conn| question(&mut conn));
        asked.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Site for Postgres {
    type Connection = PgConnection;

    fn worker_url(&self, name: &str, through_proxy: bool) -> String {
        let url = if through_proxy || self.all_through {
            self.proxy.url().to_owned()
        } else {
            self.cluster.url()
        };
        format!("{url}&application_name={name}")
    }

    fn connect(&self) -> ConnectionResult<PgConnection> {
        PgConnection::establish(&format!("{}&application_name=outside", self.cluster.url()))
    }

    fn history() -> &'static str {
        "
        CREATE TABLE history (
            seq bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), application text NOT NULL,
            job_id bigint NOT NULL, was text, old_generation bigint, old_token uuid, state text NOT NULL, generation bigint NOT NULL,
            token uuid, extended boolean NOT NULL DEFAULT false
        );
        CREATE FUNCTION keep_history() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_TABLE_NAME = 'finished_jobs' THEN
                INSERT INTO history (application, job_id, was, state, generation, token)
                    VALUES (current_setting('application_name'), NEW.id, 'unfinished', NEW.state, NEW.generation, NEW.lease_token);
            ELSIF TG_OP = 'INSERT' THEN
                INSERT INTO history (application, job_id, state, generation, token)
                    VALUES (current_setting('application_name'), NEW.id, NEW.state, NEW.generation, NEW.lease_token);
            ELSE
                INSERT INTO history (application, job_id, was, old_generation, old_token, state, generation, token, extended)
                    VALUES (current_setting('application_name'), NEW.id, OLD.state, OLD.generation, OLD.lease_token, NEW.state,
                        NEW.generation, NEW.lease_token, OLD.lease_until IS DISTINCT FROM NEW.lease_until AND OLD.state = NEW.state);
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER history AFTER INSERT OR UPDATE ON leasehold.jobs FOR EACH ROW EXECUTE FUNCTION keep_history();
        CREATE TRIGGER history AFTER INSERT ON leasehold.finished_jobs FOR EACH ROW EXECUTE FUNCTION keep_history();
        "
    }

    fn terminate(&self, name: &str) -> usize {
        let terminate = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{name}' AND random() < 0.6"
        );
        self.ask(|conn| conn.number(&terminate)).try_into().unwrap_or_default()
    }

    fn lose(&self) -> bool {
        let (text, fault) = LOST[fastrand::usize(0..LOST.len())];
        self.proxy.once(text, fault);
        true
    }

    fn crash(&mut self) -> bool {
        self.cluster.crash();
        self.cluster.start_again();
        true
    }

    fn kill_backend(&mut self) -> bool {
        let victim = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'w%' ORDER BY random() LIMIT 1";
        let pid = self.ask(|conn| conn.number(victim));
        let Ok(pid) = i32::try_from(pid) else { return false };
        // It may have ended by itself since.
        Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }

    /// Far ahead, where all leases end at once; and back by less than a lease is taken for stuck, for one that was given
    /// before a jump back lasts for so much longer.
    fn jump(&mut self) -> bool {
        let Some(clock) = &mut self.clock else { return false };
        *clock += if fastrand::bool() { 3600 } else { -1 };
        self.cluster.set_clock(*clock);
        true
    }

    fn heal(&self) {
        self.proxy.heal();
    }

    fn expired() -> &'static str {
        "SELECT id || ' at generation ' || generation FROM leasehold.jobs WHERE state = 'running' AND lease_until < clock_timestamp()"
    }

    fn lock_two(conn: &mut PgConnection, first: i64, second: i64) -> QueryResult<()> {
        conn.run(&format!(
            "BEGIN; SET LOCAL lock_timeout = '2s';
             SELECT 1 FROM leasehold.jobs WHERE id = {first} FOR UPDATE;
             SELECT pg_sleep(0.02);
             SELECT 1 FROM leasehold.jobs WHERE id = {second} FOR UPDATE;
             COMMIT"
        ))
    }
}
