//! What the interface answers.

use serde_json::json;

use crate::support::*;

conformance!(
    fn s4_06_a_mix_is_accepted_with_a_reason_for_each_other_and_nothing_claimed_is_a_conflict(db: &mut Db) {
        let service = start(db, 5, NEVER);
        db.sql("UPDATE issue SET processing_status = 'DONE' WHERE id = 2; UPDATE issue SET processing_status = 'FAILED' WHERE id = 4");
        assert_eq!(ask(&service.url, &[1]), (202, json!({ "occupied": [1], "others": [] })));
        let mix = json!({ "occupied": [3, 4], "others": [
            { "id": 1, "reason": "running" },
            { "id": 2, "reason": "not ready", "status": "DONE" },
            { "id": 999, "reason": "missing" },
        ]});
        assert_eq!(ask(&service.url, &[1, 2, 3, 4, 999, 3]), (202, mix));
        let none = json!({ "occupied": [], "others": [
            { "id": 3, "reason": "running" },
            { "id": -7, "reason": "missing" },
        ]});
        assert_eq!(ask(&service.url, &[3, -7]), (409, none));
        assert_eq!(ask(&service.url, &[]), (409, json!({ "occupied": [], "others": [] })));
        assert_eq!(with_status(db, "PENDING"), 1, "nobody has asked for the fifth");
    }
);

conformance!(
    #[skip(sqlite, "SQLite has no row locks")]
    fn s4_08_an_issue_that_is_locked_for_a_moment_is_busy_and_asked_for_again(db: &mut Db) {
        use diesel::connection::SimpleConnection;

        let service = start(db, 1, NEVER);
        let mut locker = db.connect();
        locker.batch_execute("BEGIN; SELECT * FROM issue FOR UPDATE").unwrap();
        let busy = json!({ "occupied": [], "others": [{ "id": 1, "reason": "busy" }] });
        assert_eq!(ask(&service.url, &[1]), (409, busy));
        locker.batch_execute("ROLLBACK").unwrap();
        assert_eq!(ask(&service.url, &[1]).0, 202);
    }
);

conformance!(
    fn what_is_no_list_of_ids_is_refused_with_a_reason(db: &mut Db) {
        let service = start(db, 1, NEVER);
        for (body, status) in [
            ("", 400),
            ("{", 400),
            ("[1]", 422),
            ("{}", 422),
            (r#"{"issue_ids": 1}"#, 422),
            (r#"{"issue_ids": ["1"]}"#, 422),
            (r#"{"issue_ids": [9223372036854775808]}"#, 422),
        ] {
            let (answered, answer) = post(&service.url, body);
            assert_eq!(answered, status, "{body}: {answer}");
            assert!(answer["error"].is_string(), "{body}: {answer}");
        }
        // Only JSON, which no page of another origin can send unasked.
        let answer = agent()
            .post(format!("{}/ai-articles", service.url))
            .header("content-type", "text/plain")
            .send(r#"{"issue_ids": [1]}"#)
            .unwrap();
        assert_eq!(answer.status(), 415);
        assert_eq!(
            agent()
                .get(format!("{}/ai-articles", service.url))
                .call()
                .unwrap()
                .status(),
            405
        );
        assert_eq!(with_status(db, "PENDING"), 1);
    }
);

conformance!(
    fn a_huge_list_is_answered_and_one_without_bounds_is_not(db: &mut Db) {
        let service = start(db, 3, NEVER);
        let ids: Vec<i64> = (1..=10_000).collect();
        let (status, answer) = ask(&service.url, &ids);
        assert_eq!((status, &answer["occupied"]), (202, &json!([1, 2, 3])));
        assert_eq!(answer["others"].as_array().unwrap().len(), 9997);
        let ids: Vec<i64> = (1..=10_001).collect();
        assert_eq!(ask(&service.url, &ids).0, 413);
        // Past the limit of a body the server does not read on, and the client may find the line closed.
        let body = serde_json::json!({ "issue_ids": vec![i64::MAX; 200_000] }).to_string();
        let request = agent().post(format!("{}/ai-articles", service.url));
        if let Ok(answer) = request.header("content-type", "application/json").send(body) {
            assert_eq!(answer.status(), 413);
        }
        assert_eq!(ask(&service.url, &[1]).0, 409, "it goes on");
    }
);

conformance!(
    fn a_database_that_is_away_is_told_without_its_insides(db: &mut Db) {
        let service = start(db, 1, NEVER);
        db.sql("ALTER TABLE issue RENAME TO away");
        let (status, answer) = ask(&service.url, &[1]);
        assert_eq!(status, 503);
        assert!(!answer.to_string().contains("issue"), "{answer}");
        db.sql("ALTER TABLE away RENAME TO issue");
        assert_eq!(ask(&service.url, &[1]).0, 202);
    }
);

conformance!(
    fn the_page_and_its_files_are_served_under_a_strict_policy(db: &mut Db) {
        let service = start(db, 8, NEVER);
        for (path, kind) in [
            ("/", "text/html; charset=utf-8"),
            ("/app.js", "text/javascript; charset=utf-8"),
            ("/style.css", "text/css; charset=utf-8"),
            ("/state", "application/json"),
        ] {
            let answer = agent().get(format!("{}{path}", service.url)).call().unwrap();
            let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(
                (answer.status().as_u16(), header("content-type").as_str()),
                (200, kind),
                "{path}"
            );
            let policy = header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"));
            assert_eq!(header("x-content-type-options"), "nosniff");
        }
        let view = service.desk.look().unwrap();
        assert_eq!((view.issues.len(), view.articles.len()), (8, 0));
        assert!(
            view.issues
                .iter()
                .all(|issue| issue.status == "PENDING" && issue.lease_ms.is_none())
        );
        ask(&service.url, &[8]);
        let view = service.desk.look().unwrap();
        assert!(
            view.issues[7].lease_ms.is_some_and(|ms| (1..=60_000).contains(&ms)),
            "{view:?}"
        );
    }
);
