//! Commands that only look.

use leasehold::Job as _;
use leasehold::{Batch, EnqueueOptions, Schema};
use leasehold_tests::conformance;
use leasehold_tests::jobs::prepare;
use serde_json::json;

use super::{Only, leasehold, mail, work};

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
        let options = EnqueueOptions::new().idempotency_key("once");
        let keyed = mail("").enqueue_with(&mut conn, &options).unwrap().id();

        let list = |arguments: &[&str]| leasehold(db, &[&["list", "--json"], arguments].concat()).ok().json();
        let found = |arguments: &[&str]| -> Vec<i64> {
            let list = list(arguments);
            list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect()
        };
        let mut newest = ids.clone();
        newest.reverse();
        let failed = found(&["--state", "discarded"]);
        assert_eq!(failed.len(), 3, "{failed:?}");
        let first = list(&["--state", "discarded", "--limit", "2"]);
        assert_eq!(first["jobs"].as_array().unwrap().len(), 2);
        let next = first["next"].as_str().unwrap();
        assert_eq!(found(&["--state", "discarded", "--from", next]), failed[2..]);
        assert_eq!(found(&["--error", "no route", "--queue", "mail", "--kind", "mail"]), newest);
        assert_eq!(found(&["--state", "ready", "--kind", "mail"]), [keyed]);
        assert!(found(&["--older-than", "1d"]).is_empty());
        assert!(found(&["--queue", "other"]).is_empty());
        assert!(list(&["--limit", "1"])["jobs"][0].get("payload").is_none());
        let text = leasehold(db, &["list", "--limit", "2"]).ok().out;
        assert!(text.contains(&format!("--from {}", ids[2])), "{text}");
        leasehold(db, &["list", "--from", "nowhere"]).refused(2, "no place");
    }
}

conformance! {
    fn the_job_of_a_key_is_listed(db: &mut Db) {
        let mut conn = prepare(db);
        let options = EnqueueOptions::new().idempotency_key("once");
        let keyed = mail("").enqueue_with(&mut conn, &options).unwrap().id();
        let unique = Only { name: "ada".to_owned() };
        let key = unique.unique_key().unwrap();
        let unique = unique.enqueue(&mut conn).unwrap().id();
        let found = |arguments: &[&str]| -> Vec<i64> {
            let list = leasehold(db, &[&["list", "--json"], arguments].concat()).ok().json();
            list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect()
        };
        assert_eq!(found(&["--idempotency-key", "once"]), [keyed]);
        assert!(found(&["--idempotency-key", "twice"]).is_empty());
        assert_eq!(found(&["--kind", "only", "--unique-key", &key]), [unique]);
        assert!(found(&["--kind", "mail", "--unique-key", &key]).is_empty());
        leasehold(db, &["list", "--unique-key", &key]).refused(2, "--kind");
    }
}

conformance! {
    fn who_did_what_is_listed_and_shown_with_the_job(db: &mut Db) {
        let mut conn = prepare(db);
        let id = mail("").enqueue(&mut conn).unwrap().id().to_string();
        leasehold(db, &["edit", &id, "--priority", "3", "--by", "ann"]).ok();
        leasehold(db, &["cancel", &id, "--by", "eve\u{1b}[2J", "--reason", "not wanted"]).ok();
        leasehold(db, &["requeue", &id, "--by", "ann"]).ok();
        leasehold(db, &["pause", "--queue", "mail", "--by", "ann", "--reason", "ink"]).ok();
        leasehold(db, &["resume", "--queue", "mail", "--by", "ann"]).ok();
        leasehold(db, &["resume", "--queue", "mail", "--by", "bob"]).refused(1, "not paused");
        leasehold(db, &["cancel", &id, "--by", "bob", "--dry-run"]).ok();

        let did = |arguments: &[&str]| -> Vec<String> {
            let list = leasehold(db, &[&["actions", "--json"], arguments].concat()).ok().json();
            let text = |action: &serde_json::Value, name: &str| action[name].as_str().unwrap_or("-").to_owned();
            list.as_array().unwrap().iter().map(|action| {
                ["by", "action", "on", "reason"].map(|name| text(action, name)).join(" ")
            }).collect()
        };
        let all = [
            "ann resume queue -", "ann pause queue ink", "ann requeue job -", "eve\u{1b}[2J cancel job not wanted", "ann edit job -",
        ];
        assert_eq!(did(&[]), all);
        assert_eq!(did(&["--job", &id]), all[2..]);
        assert_eq!(did(&["--by", "ann", "--job", &id]), [all[2], all[4]]);
        assert!(did(&["--by", "bob"]).is_empty());
        let page = leasehold(db, &["actions", "--limit", "2"]).ok().out;
        let before = page.split_once("--before ").unwrap().1.trim();
        assert_eq!(did(&["--before", before, "--limit", "2"]), all[2..4]);

        let text = leasehold(db, &["actions"]).ok().out;
        assert!(text.contains("1 to 2") && text.contains(&format!("job {id}")) && !text.contains('\u{1b}'), "{text}");
        let shown = leasehold(db, &["show", &id, "--json"]).ok().json();
        let told: Vec<_> = shown["actions"].as_array().unwrap().iter().map(|action| action["action"].clone()).collect();
        assert_eq!(told, ["edit", "cancel", "requeue"]);
        let text = leasehold(db, &["show", &id]).ok().out;
        assert!(text.contains("not wanted") && !text.contains('\u{1b}'), "{text}");
    }
}

conformance! {
    fn batches_are_listed_the_newest_first(db: &mut Db) {
        let mut conn = prepare(db);
        let first = Batch::new("letters").add(&mail("")).add(&mail("no route")).enqueue(&mut conn).unwrap().id;
        work(db);
        let second = Batch::new("cards").add(&mail("")).enqueue(&mut conn).unwrap().id;
        let listed = leasehold(db, &["batches", "--json"]).ok().json();
        let names: Vec<_> = listed.as_array().unwrap().iter().map(|batch| batch["name"].clone()).collect();
        assert_eq!(names, ["cards", "letters"]);
        assert_eq!(
            ["open", "completed", "discarded"].map(|name| [&listed[0][name], &listed[1][name]].map(ToString::to_string)),
            [["1", "0"], ["0", "1"], ["0", "1"]]
        );
        let page = leasehold(db, &["batches", "--limit", "1"]).ok().out;
        assert!(page.contains("cards") && page.contains(&format!("--before {second}")), "{page}");
        let older = leasehold(db, &["batches", "--before", &second.to_string()]).ok().out;
        assert!(older.contains("letters") && older.contains("finished") && !older.contains("cards"), "{older}");
        assert!(older.contains(&first.to_string()), "{older}");
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
        let id = mail("\u{1b}[2Jgone\u{202e}\u{61c}").enqueue(&mut conn).unwrap().id().to_string();
        work(db);
        for arguments in [&["show", &id][..], &["list"], &["show", &id, "--payload"]] {
            let said = leasehold(db, arguments).ok().out;
            assert!(!said.contains(['\u{1b}', '\u{202e}', '\u{61c}']), "{said:?}");
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
        assert!(finding.unwrap()["name"].as_str().is_some_and(|name| !name.contains(' ')), "{findings}");
        leasehold::manage::cancel_all(&mut conn, &Schema::default(), &leasehold::inspect::Filter::new(), leasehold::manage::Cancel::Hard, "ops", "").unwrap();
        let said = leasehold(db, &["doctor"]);
        assert!(!said.out.contains("mail"), "{}", said.out);
    }
}
