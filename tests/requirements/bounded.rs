//! Connections that fail a test which reads too much.

use leasehold::__private::Backend;

/// A connection that can tell what its statements read.
pub(crate) trait Bounded: Backend {
    /// Runs `work`, undoes it, and fails if it read more than so many rows or pages.
    fn assert_bounded(&mut self, what: &str, rows: i64, pages: i64, work: impl Fn(&mut Self));

    /// As `assert_bounded`, of what may begin at an end of an index, or ends by its limit.
    fn assert_limited(&mut self, what: &str, rows: i64, pages: i64, work: impl Fn(&mut Self));
}

#[cfg(feature = "postgres")]
impl Bounded for diesel::PgConnection {
    fn assert_bounded(&mut self, what: &str, rows: i64, pages: i64, work: impl Fn(&mut Self)) {
        use diesel::prelude::*;
        use diesel::sql_types::BigInt;

        #[derive(QueryableByName)]
        struct Read {
            #[diesel(sql_type = BigInt)]
            rows: i64,
            #[diesel(sql_type = BigInt)]
            pages: i64,
        }
        // Of this session since its last report, in all tables and indexes of the queue.
        let counters = "SELECT sum(pg_stat_get_xact_tuples_returned(oid))::bigint AS rows,
                sum(pg_stat_get_xact_blocks_fetched(oid))::bigint AS pages
            FROM pg_class WHERE relnamespace = 'leasehold'::regnamespace";
        let (before, after) = self.test_transaction::<_, diesel::result::Error, _>(|conn| {
            let before: Read = diesel::sql_query(counters).get_result(conn)?;
            work(conn);
            Ok((before, diesel::sql_query(counters).get_result::<Read>(conn)?))
        });
        let read = Read {
            rows: after.rows - before.rows,
            pages: after.pages - before.pages,
        };
        assert!(
            read.rows <= rows && read.pages <= pages,
            "{what}: {} rows, {} pages",
            read.rows,
            read.pages
        );
    }

    fn assert_limited(&mut self, what: &str, rows: i64, pages: i64, work: impl Fn(&mut Self)) {
        self.assert_bounded(what, rows, pages, work);
    }
}

#[cfg(feature = "sqlite")]
impl Bounded for diesel::SqliteConnection {
    fn assert_bounded(&mut self, what: &str, _: i64, _: i64, work: impl Fn(&mut Self)) {
        // Ten times what it takes on a slow machine; a walk through 100,000 rows takes longer on a fast one.
        sqlite::assert_plans(self, what, std::time::Duration::from_millis(60), false, work);
    }

    fn assert_limited(&mut self, what: &str, _: i64, _: i64, work: impl Fn(&mut Self)) {
        sqlite::assert_plans(self, what, std::time::Duration::from_millis(600), true, work);
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    /// Fails if a statement took longer than that at its quickest, or reads a table of jobs or events from end to end; in the
    /// order of an index it may if it ends by a limit.
    pub(super) fn assert_plans(
        conn: &mut diesel::SqliteConnection,
        what: &str,
        longest: std::time::Duration,
        limited: bool,
        work: impl Fn(&mut diesel::SqliteConnection),
    ) {
        use std::sync::{Arc, Mutex};
        use std::time::Instant;

        use diesel::connection::{Instrumentation, InstrumentationEvent};
        use diesel::prelude::*;

        #[derive(QueryableByName)]
        struct Line {
            #[diesel(sql_type = diesel::sql_types::Text)]
            detail: String,
        }
        #[derive(Clone, Default)]
        struct Texts(Arc<Mutex<Vec<String>>>);
        impl Instrumentation for Texts {
            fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
                if let InstrumentationEvent::StartQuery { query, .. } = event {
                    let text = query.to_string();
                    let text = text.split(" -- binds").next().unwrap_or_default().trim().to_owned();
                    self.0.lock().unwrap().push(text);
                }
            }
        }
        let texts = Texts::default();
        conn.set_instrumentation(texts.clone());
        let quickest = (0..5)
            .map(|_| {
                conn.test_transaction::<_, diesel::result::Error, _>(|conn| {
                    let begun = Instant::now();
                    work(conn);
                    Ok(begun.elapsed())
                })
            })
            .min()
            .unwrap();
        conn.set_instrumentation(Texts::default());
        assert!(quickest < longest, "{what}: {quickest:?}");
        let texts = texts.0.lock().unwrap().clone();
        let mut looked = 0;
        for text in texts.iter().filter(|text| text.contains("leasehold_")) {
            looked += 1;
            let plan: Vec<Line> = diesel::sql_query(format!("EXPLAIN QUERY PLAN {text}"))
                .load(conn)
                .unwrap();
            for Line { detail } in &plan {
                let of_jobs = !detail.contains(" VIRTUAL TABLE ")
                    && [
                        "leasehold_jobs",
                        "leasehold_finished_jobs",
                        "leasehold_outbox_events",
                        "j",
                        "job",
                        "a",
                        "f",
                        "x",
                        "w",
                        "n",
                        "took",
                        "leasehold_job_errors",
                        "leasehold_job_waits",
                    ]
                    .iter()
                    .any(|name| *detail == format!("SCAN {name}") || detail.starts_with(&format!("SCAN {name} ")));
                // Held rows are few.
                assert!(
                    !of_jobs
                        || detail.contains("leasehold_jobs_held")
                        || limited && detail.contains("INDEX leasehold_"),
                    "{what}: {detail}\n{text}"
                );
            }
        }
        assert!(looked > 0, "{what}: {texts:?}");
    }
}
