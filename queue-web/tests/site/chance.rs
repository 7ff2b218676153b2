//! Requests of odd parts, by chance.

use http::header::COOKIE;
use leasehold::Job;

use crate::support::*;

/// The next of a row of numbers that look like chance, the same in each run.
fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    usize::try_from(*seed % 1_000_003).unwrap()
}

conformance!(
    fn no_request_of_odd_parts_breaks_a_page(db: &mut Db) {
        let mut conn = prepare(db);
        let id = Note { n: 1 }.enqueue(&mut conn).unwrap().id();
        let visit = Visit::begin(db);
        let paths = [
            "/",
            "/jobs",
            "/queues",
            "/batches",
            "/schedules",
            "/workers",
            "/jobs/1",
            "/batches/1",
            "/workflows/1",
            "/jobs/cancel",
            "/jobs/requeue",
            "/jobs/1/run",
            "/jobs/1/discard",
            "/pause",
            "/resume",
            "/schedules/pause",
            "/login",
            "/style.css",
            "/x",
        ];
        let names = [
            "id",
            "state",
            "queue",
            "kind",
            "batch",
            "error",
            "age",
            "from",
            "before",
            "which",
            "job",
            "ids",
            "key",
            "unique",
            "generation",
            "how",
            "scope",
            "name",
            "deed",
            "done",
            "of",
            "refresh",
            "reason",
        ];
        let values = [
            "",
            "1",
            "-1",
            "0",
            "ready",
            "scheduled",
            "cancelled",
            "all",
            "job",
            "queue",
            "%00",
            "%ff",
            "%F0%9F%98%80",
            "%E2%80%AE",
            "1h",
            "9223372036854775807",
            "-9223372036854775808",
            "1.1",
            "1,2",
            "%3Cscript%3E",
            "%22%27%60",
            "a%2Fb",
            "%",
            "+",
            "5",
            "soft",
        ];
        let mut seed = 0x5eed_u64;
        for _ in 0..1500 {
            let path = paths[next(&mut seed) % paths.len()];
            let fields: Vec<String> = (0..next(&mut seed) % 5)
                .map(|_| {
                    let (name, value) = (
                        names[next(&mut seed) % names.len()],
                        values[next(&mut seed) % values.len()],
                    );
                    format!("{name}={value}")
                })
                .collect();
            let fields = fields.join("&");
            let posted = next(&mut seed) % 2 == 1;
            let request = match posted {
                true => form(path).body(format!("mark={}&{fields}", visit.mark).into_bytes()),
                false => request("GET", &format!("{path}?{fields}")).body(Vec::new()),
            };
            let mut request = request.unwrap();
            request.headers_mut().insert(COOKIE, visit.cookie.parse().unwrap());
            let page = send(&visit.site, request);
            let expected = [200, 303, 400, 401, 404, 405, 409];
            assert!(
                expected.contains(&page.status.as_u16()),
                "{} for {path} {fields}",
                page.status
            );
            page.is_tame();
        }
        assert_eq!(visit.look(&format!("/jobs/{id}")).status, 200);
    }
);
