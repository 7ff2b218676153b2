//! A database, seen directly and through the proxy that mutates.

use diesel::PgConnection;
use leasehold::__private::{Connect, ConnectionSettings};
use leasehold_tests::postgres::{Database, database};
use leasehold_tests::proxy::Proxy;

use crate::Rewrites;
use crate::jobs::migrated;

pub(crate) struct Bench {
    pub(crate) db: Database,
    /// The library as it is.
    pub(crate) direct: PgConnection,
    /// The mutant.
    pub(crate) mutant: PgConnection,
    proxy: Proxy,
}

impl Bench {
    pub(crate) fn new(rewrites: Rewrites<'_>) -> Self {
        use leasehold_tests::TestDb;
        let mut db = database();
        let direct = migrated(&mut db);
        let proxy = Proxy::start(&db.url());
        for (from, to) in rewrites {
            proxy.rewrite(from, to);
        }
        let mutant = connect(proxy.url());
        Self {
            db,
            direct,
            mutant,
            proxy,
        }
    }

    /// Another session of the mutant's.
    pub(crate) fn another(&self) -> PgConnection {
        connect(self.proxy.url())
    }

    pub(crate) fn rewrote(&self, from: &str) -> bool {
        self.proxy.rewrote(from) > 0
    }
}

fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url, &ConnectionSettings::default()).expect("the database takes connections")
}
