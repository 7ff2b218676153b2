//! The library's own statements on bare libpq: the reference to which the library is compared.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use leasehold::__private::{
    ClaimRequest, ClaimStatements, Connect, ConnectionSettings, LeaseStatements, Served, SettleStatements,
};
use leasehold::Schema;
use uuid::Uuid;

use crate::libpq::Libpq;
use crate::work::Answer;

/// A connection with the statements prepared.
#[derive(Debug)]
pub struct Reference {
    conn: Libpq,
    kind: String,
    worker: String,
}

/// What a claim has got: the columns of a fence, each as an array's text.
#[derive(Debug, Default)]
pub struct Claimed {
    /// The ids.
    pub ids: Vec<i64>,
    generations: Vec<String>,
    token: String,
    payloads: Vec<String>,
}

#[derive(QueryableByName)]
struct Prepared {
    #[diesel(sql_type = Text)]
    statement: String,
}

impl Reference {
    /// Connects for jobs of this kind in the queue `default`, with the settings of the library's own sessions.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn connect(url: &str, kind: &str) -> Answer<Self> {
        let mut conn = Libpq::connect(url)?;
        for setting in settings(url)? {
            conn.execute(&setting)?;
        }
        for (name, text) in texts(url)? {
            conn.execute(&format!("PREPARE {name} {text}"))?;
        }
        Ok(Self {
            conn,
            kind: kind.to_owned(),
            worker: Uuid::new_v4().to_string(),
        })
    }

    /// The connection itself.
    pub fn conn(&mut self) -> &mut Libpq {
        &mut self.conn
    }

    /// Claims up to `limit` jobs.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn claim(&mut self, limit: usize) -> Answer<Claimed> {
        let (token, kind, limit) = (
            Uuid::new_v4().to_string(),
            format!("{{{}}}", self.kind),
            limit.to_string(),
        );
        let values = [&token, &self.worker, "true", "{default}", &kind, "{1}", &limit, &limit];
        let rows = self.conn.run("claim", &values)?;
        let mut claimed = Claimed {
            token,
            ..Claimed::default()
        };
        for row in &rows {
            claimed.ids.push(row[0].parse()?);
            claimed.generations.push(row[7].clone());
            claimed.payloads.push(row[4].clone());
        }
        Ok(claimed)
    }

    /// Finishes what was claimed; how many were ours.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn finish(&mut self, claimed: &Claimed) -> Answer<usize> {
        let [ids, generations, tokens] = claimed.columns();
        Ok(self.conn.run("finish", &[&ids, &generations, &tokens])?.len())
    }

    /// Renews what was claimed; how many were ours.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn heartbeat(&mut self, claimed: &Claimed) -> Answer<usize> {
        let [ids, generations, tokens] = claimed.columns();
        let values = [&*ids, &*generations, &*tokens, &*ids, &*generations, &*tokens];
        Ok(self.conn.run("heartbeat", &values)?.len())
    }
}

impl Claimed {
    /// The payloads, as they are stored.
    #[must_use]
    pub fn payloads(&self) -> &[String] {
        &self.payloads
    }

    fn columns(&self) -> [String; 3] {
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        let tokens = vec![self.token.as_str(); ids.len()];
        let array = |texts: String| format!("{{{texts}}}");
        [
            array(ids.join(",")),
            array(self.generations.join(",")),
            array(tokens.join(",")),
        ]
    }
}

/// What the library sets for its control sessions, as it is set there.
fn settings(url: &str) -> Answer<Vec<String>> {
    #[derive(QueryableByName)]
    struct Setting {
        #[diesel(sql_type = Text)]
        text: String,
    }
    let mut conn = PgConnection::connect(url, &ConnectionSettings::default())?;
    let rows: Vec<Setting> = diesel::sql_query(
        "SELECT pg_catalog.format('SET %I = %L', name, pg_catalog.current_setting(name)) AS text FROM pg_catalog.pg_settings
         WHERE source = 'session' AND name ~ '^(plan_|enable_|jit|default_transaction|lock_)'",
    )
    .load(&mut conn)?;
    Ok(rows.into_iter().map(|row| row.text).collect())
}

/// The texts as the library has them prepared: run once, for nothing, and read from the session.
fn texts(url: &str) -> Answer<Vec<(&'static str, String)>> {
    let mut conn = PgConnection::connect(url, &ConnectionSettings::default())?;
    let schema = Schema::default();
    let mut texts = Vec::new();
    let nobody = [Served {
        queue: "nobody".to_owned(),
        kind: "nothing".to_owned(),
        version: 1,
    }];
    let request = ClaimRequest {
        serves: &nobody,
        limit: 1,
        lease_token: Uuid::new_v4(),
        worker: Uuid::new_v4(),
        begun: true,
        counted: &[],
        oldest: false,
    };
    conn.claim(&schema, &request)?;
    texts.push(("claim", last_prepared(&mut conn)?));
    conn.finish(&schema, &[])?;
    texts.push(("finish", last_prepared(&mut conn)?));
    conn.heartbeat(&schema, &[])?;
    texts.push(("heartbeat", last_prepared(&mut conn)?));
    Ok(texts)
}

/// The only prepared statement that is not about prepared statements; and none is left.
fn last_prepared(conn: &mut PgConnection) -> Answer<String> {
    let prepared: Prepared = diesel::sql_query(
        "SELECT pg_catalog.format('(%s) AS %s', pg_catalog.array_to_string(parameter_types, ', '), statement) AS statement \
         FROM pg_catalog.pg_prepared_statements WHERE statement !~ 'pg_prepared' ORDER BY prepare_time DESC, name DESC LIMIT 1",
    )
    .get_result(conn)?;
    conn.batch_execute("SELECT 1")?;
    Ok(prepared.statement)
}
