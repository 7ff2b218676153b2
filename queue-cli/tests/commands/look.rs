//! Commands that only look.

use leasehold::Job as _;
use leasehold::{Batch, Schema};
use leasehold_tests::conformance;
use leasehold_tests::jobs::prepare;
use serde_json::json;

use super::{leasehold, mail, work};

conformance! {
    fn stats_count_jobs_by_queue_and_state(db: &mut Db) {
        let mut conn = prepare(db);
        mail("").enqueue(&mut conn).unwrap();
        mail("no route").enqueue(&mut conn).unwrap();
        work(db);
        mail("").enqueue(&mut conn).unwrap();

        let stats = leasehold(db, &["stats", "--json"]).ok().json();
        let queue = &stats[0];
        assert_eq!(
            [&queue["queue"], &queue["ready"], &queue["completed"], &queue["discarded"]],
            [&json!("mail"), &json!(1), &json!(1), &json!(1)]
        );
        assert!(leasehold(db, &["stats"]).ok().out.contains("QUEUE"));
    }
}

conformance! {
    fn a_list_has_pages_and_what_was_asked_for(db: &mut Db) {
        let mut conn = prepare(db);
        let ids: Vec<i64> = (0..3).map(|_| mail("no route").enqueue(&mut conn).unwrap().id()).collect();
        work(db);
        mail("").enqueue(&mut conn).unwrap();

        let list = |arguments: &[&str]| leasehold(db, &[&["list", "--json"], arguments].concat()).ok().json();
        let found = |arguments: &[&str]| -> Vec<i64> {
            let list = list(arguments);
            list.as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect()
        };
        assert_eq!(found(&["--state", "discarded", "--limit", "2"]), ids[..2]);
        assert_eq!(found(&["--state", "discarded", "--after", &ids[1].to_string()]), ids[2..]);
        assert_eq!(found(&["--error", "no route", "--queue", "mail", "--kind", "mail"]), ids);
        assert!(found(&["--older-than", "1d"]).is_empty());
        assert!(list(&["--limit", "1"])[0].get("payload").is_none());
        let text = leasehold(db, &["list", "--limit", "2"]).ok().out;
        assert!(text.contains(&format!("--after {}", ids[1])), "{text}");
    }
}

conformance! {
    fn a_payload_is_shown_only_if_asked_for(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("no route").enqueue(&mut conn).unwrap().id().to_string();
        work(db);

        let shown = leasehold(db, &["show", &id]).ok().out;
        assert!(shown.contains("discarded") && shown.contains("no route"), "{shown}");
        assert!(!shown.contains("a secret address"), "{shown}");
        let json = leasehold(db, &["show", &id, "--json", "--payload"]).ok().json();
        assert_eq!(json["payload"]["to"], "a secret address");
        assert_eq!(json["errors"][0]["cause"], "error");
    }
}

conformance! {
    /// The text of an error may be anybody's.
    fn no_text_drives_the_terminal(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("\u{1b}[2Jgone\u{202e}").enqueue(&mut conn).unwrap().id().to_string();
        work(db);
        for arguments in [&["show", &id][..], &["list"], &["show", &id, "--payload"]] {
            let said = leasehold(db, arguments).ok().out;
            assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
        }
        let json = leasehold(db, &["show", &id, "--json"]).ok().json();
        assert!(json["errors"][0]["error"].as_str().unwrap().contains("\u{1b}[2Jgone"));
    }
}

conformance! {
    fn a_batch_is_shown_with_its_counts(db: &mut Db) {
        let mut conn = prepare(db);
        let batch = Batch::new("letters").add(&mail("")).add(&mail("no route")).enqueue(&mut conn).unwrap();
        work(db);
        let shown = leasehold(db, &["batch", &batch.id.to_string(), "--json"]).ok().json();
        assert_eq!([&shown["completed"], &shown["discarded"]], [&json!(1), &json!(1)]);
        assert!(leasehold(db, &["batch", &batch.id.to_string()]).ok().out.contains("letters"));
        leasehold(db, &["batch", "4711"]).refused(1, "no batch 4711");
    }
}

conformance! {
    /// Nobody serves the queue of a job that is ready.
    fn the_doctor_tells_what_is_wrong_and_what_to_do(db: &mut Db) {
        let mut conn = prepare(db);
        mail("").enqueue(&mut conn).unwrap();
        let said = leasehold(db, &["doctor", "--json"]);
        assert_eq!(said.code, 1);
        let findings = said.json();
        let finding = findings.as_array().unwrap().iter().find(|finding| {
            finding["finding"].as_str().unwrap().contains("mail")
        });
        assert!(finding.is_some_and(|finding| finding["severity"] == "warning" && finding["remedy"] != ""), "{findings}");
        leasehold::manage::cancel_all(&mut conn, &Schema::default(), &leasehold::inspect::Filter::new(), leasehold::manage::Cancel::Hard, "ops", "").unwrap();
        let said = leasehold(db, &["doctor"]);
        assert!(!said.out.contains("mail"), "{}", said.out);
    }
}
