use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use diesel::connection::SimpleConnection;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::{Connection as _, PgConnection};
use leasehold::{EnqueueOptions, Job, JobError, Schema, inspect};
use leasehold_tests::postgres::database;

use crate::probe::*;

/// What a database may set for every session of it, all at once.
const DEFAULTS: &str = "
    default_transaction_isolation = 'serializable'
    default_transaction_deferrable = 'on'
    standard_conforming_strings = 'off'
    timezone = 'Asia/Kathmandu'
    datestyle = 'SQL, DMY'
    intervalstyle = 'sql_standard'
    statement_timeout = '10s'
    lock_timeout = '1s'
    idle_in_transaction_session_timeout = '5s'
    idle_session_timeout = '300ms'
    default_toast_compression = 'pglz'
    row_security = 'off'
    bytea_output = 'escape'
    extra_float_digits = '-15'
    array_nulls = 'off'
    transform_null_equals = 'on'
";

#[test]
fn odd_defaults_of_a_database_change_nothing() {
    let mut db = database();
    let name = db.text("SELECT current_database()").unwrap();
    for line in DEFAULTS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Not every server knows each.
        let setting = line.split(' ').next().unwrap();
        if db.integer(&format!("SELECT count(*) FROM pg_settings WHERE name = '{setting}'")) == 1 {
            db.sql(&format!("ALTER DATABASE \"{name}\" SET {line}"));
        }
    }
    // Everything that could be shadowed, is.
    db.sql(
        "CREATE SCHEMA evil;
         CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''1999-01-01''';
         CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''evil''';
         CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''evil''';
         CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
         CREATE FUNCTION evil.gen_random_uuid() RETURNS uuid LANGUAGE sql AS 'SELECT uuid ''00000000-0000-0000-0000-000000000000''';
         CREATE FUNCTION evil.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql AS 'SELECT $1[1] WHERE false';
         CREATE FUNCTION evil.generate_series(integer, integer) RETURNS SETOF integer LANGUAGE sql AS 'SELECT 1 WHERE false';
         CREATE TABLE evil.jobs (id bigint); CREATE TABLE evil.served (queue text);
         CREATE TABLE public.written (id integer)",
    );
    db.sql(&format!(
        "ALTER DATABASE \"{name}\" SET search_path = evil, pg_catalog, public"
    ));
    drop(migrated(&db));
    let tries = AtomicUsize::new(0);
    let worker = worker(&db, move |probe, lease| match probe.text.as_str() {
        "finish" => lease.finish(),
        "commit" => lease.commit(|tx| Ok(tx.batch_execute("INSERT INTO written VALUES (1)")?)),
        "retry" if tries.fetch_add(1, Ordering::Relaxed) == 0 => Err(JobError::retry("it's \\ not yet")),
        _ => lease.strict().commit(|_| Ok(())),
    });
    let running = worker.start().unwrap();
    for round in 1..=3 {
        // Past the time after which the server ends idle sessions.
        let begun = Instant::now();
        eventually(SOON, "the sessions have idled", || {
            begun.elapsed() > Duration::from_millis(400)
        });
        let mut conn = PgConnection::establish(&db.url()).unwrap();
        let key = EnqueueOptions::new().idempotency_key(format!("round {round}"));
        probe("finish").enqueue_with(&mut conn, &key).unwrap();
        assert!(!probe("finish").enqueue_with(&mut conn, &key).unwrap().is_new());
        for text in ["commit", "retry"] {
            probe(text).enqueue(&mut conn).unwrap();
        }
        let later = EnqueueOptions::new().delay(Duration::from_millis(50));
        probe("strict").enqueue_with(&mut conn, &later).unwrap();
        wait_completed(&running, round * 4);
    }
    drop(running);
    assert_eq!(db.integer("SELECT count(*) FROM public.written"), 3);
    assert_eq!(db.texts("SELECT row_to_json(j) FROM leasehold.jobs AS j"), []);
    assert_eq!(
        db.integer("SELECT count(*) FROM leasehold.finished_jobs WHERE state = 'completed'"),
        12
    );
}

/// East of UTC a time that lost its zone would come due hours late, and west of it hours early. Diesel sets the zone of
/// its connections to UTC, and an application may set another one.
#[test]
fn a_session_outside_of_utc_shifts_no_time() {
    for zone in ["Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"] {
        let db = database();
        let mut conn = migrated(&db);
        let set = Zone(format!("SET timezone = '{zone}'"));
        conn.batch_execute(&set.0).unwrap();
        let begun = SystemTime::now();
        let hour = Duration::from_secs(3600);
        let options = EnqueueOptions::new();
        let mut enqueue = |options: &EnqueueOptions| probe("").enqueue_with(&mut conn, options).unwrap().id();
        let past = enqueue(&options.clone().run_at(begun - hour));
        let soon = enqueue(&options.clone().delay(Duration::from_millis(50)));
        let at = enqueue(&options.clone().run_at(begun + hour));
        let later = enqueue(&options.delay(hour));
        let manager = ConnectionManager::<PgConnection>::new(db.url());
        let pool = Pool::builder()
            .connection_customizer(Box::new(set))
            .build(manager)
            .unwrap();
        let worker = worker(&db, |_, lease| lease.strict().commit(|_| Ok(()))).with_pool(pool);
        let summary = worker.run_until_empty().unwrap();
        assert_eq!((summary.counts.completed, summary.scheduled), (2, 2), "{zone}");
        let mut job = |id| inspect::job(&mut conn, &Schema::default(), id).unwrap().unwrap();
        let now = SystemTime::now();
        for id in [past, soon] {
            let job = job(id);
            let finished = job.finished_at.unwrap();
            assert!(is_between(begun, job.created_at, finished), "{zone}: {job:?}");
            assert!(is_between(begun, finished, now), "{zone}: {job:?}");
        }
        assert!(is_between(begun + hour, job(at).run_at, begun + hour), "{zone}");
        assert!(is_between(begun + hour, job(later).run_at, now + hour), "{zone}");
    }
}

/// Sets the time zone of a pool's connections.
#[derive(Debug)]
struct Zone(String);

impl CustomizeConnection<PgConnection, diesel::r2d2::Error> for Zone {
    fn on_acquire(&self, conn: &mut PgConnection) -> Result<(), diesel::r2d2::Error> {
        conn.batch_execute(&self.0).map_err(diesel::r2d2::Error::QueryError)
    }
}

/// In whole milliseconds, as the tables give them.
fn is_between(begin: SystemTime, time: SystemTime, end: SystemTime) -> bool {
    let millisecond = Duration::from_millis(1);
    (begin - millisecond..=end + millisecond).contains(&time)
}
