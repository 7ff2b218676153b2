//! No statement of the library changes the row of a job or of an event without its fence: read from the sources themselves.

use std::collections::BTreeSet;

use crate::sources::{all_writes, missing, owned_row_writes, sources, writes};

/// Writes of a job's row that name less than the fence, and why each may.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "postgres/admit",
        "ADMIT",
        "ready rows that wait for a limit, under its own lock; ownership does not change",
    ),
    (
        "sqlite/admit",
        "ADMIT",
        "ready rows that wait for a limit; ownership does not change",
    ),
    (
        "postgres/claim",
        "claim",
        "nobody owns what it takes: ready rows, under its own lock",
    ),
    ("sqlite/claim", "CLAIM", "nobody owns what it takes: ready rows"),
    (
        "postgres/selected",
        "claim_selected",
        "nobody owns what it takes: ready rows, under its own lock",
    ),
    ("sqlite/selected", "CLAIM_IDS", "nobody owns what it takes: ready rows"),
    (
        "postgres/claim",
        "PROMOTE",
        "ready rows that are due; ownership does not change",
    ),
    (
        "sqlite/claim",
        "PROMOTE",
        "ready rows that are due; ownership does not change",
    ),
    (
        "sqlite/enqueue",
        "WITHDRAW",
        "rows of the same transaction, which nobody else has seen: ready, generation 0",
    ),
    (
        "postgres/waits",
        "UNBLOCK",
        "ready rows that waited for others, under the generation that was read",
    ),
    (
        "sqlite/waits",
        "UNBLOCK",
        "ready rows that waited for others, under the generation that was read",
    ),
    (
        "postgres/manage",
        "END_OPEN",
        "ready rows, too: it presents what it read under the lock, the state among it",
    ),
    (
        "sqlite/manage",
        "DELETE_OPEN",
        "ready rows, too: it presents the copy made under the same write lock",
    ),
    (
        "sqlite/manage",
        "REQUEST_CANCEL",
        "asks whoever has the job; ownership does not change",
    ),
    (
        "postgres/manage",
        "EDIT",
        "ready rows of the generation that the caller has seen",
    ),
    (
        "sqlite/manage",
        "EDIT",
        "ready rows of the generation that the caller has seen",
    ),
    (
        "postgres/keys",
        "CHANGE_READY",
        "ready rows, locked and read by this transaction: it presents their generation",
    ),
    (
        "sqlite/keys",
        "CHANGE_READY",
        "ready rows, read under the same write lock: it presents their generation",
    ),
    (
        "postgres/expiry",
        "DISCARD_EXPIRED",
        "nobody owns what it takes: ready rows, under its own lock",
    ),
    (
        "sqlite/expiry",
        "DELETE_EXPIRED",
        "nobody owns what it takes: ready rows, copied under the same write lock",
    ),
    (
        "postgres/relay",
        "CLAIM_EVENTS",
        "nobody owns what it takes: ready rows, under the topic's lock",
    ),
    (
        "postgres/outbox",
        "REDELIVER",
        "dead rows, which nobody owns and no relay takes",
    ),
    (
        "postgres/outbox",
        "DROP_DEAD",
        "dead rows, which nobody owns and no relay takes",
    ),
    (
        "sqlite/relay",
        "CLAIM_EVENTS",
        "nobody owns what it takes: ready rows, under the write lock",
    ),
    (
        "sqlite/outbox",
        "REDELIVER",
        "dead rows, which nobody owns and no relay takes",
    ),
    (
        "sqlite/outbox",
        "DROP_DEAD",
        "dead rows, which nobody owns and no relay takes",
    ),
    ("postgres/inspect", "MOVE_RUN_AT", "a test's helper on ready rows"),
    ("sqlite/inspect", "MOVE_RUN_AT", "a test's helper on ready rows"),
    ("sqlite/inspect", "EXPIRE_LEASE", "a test's helper that plays the clock"),
    (
        "postgres/inspect",
        "EXPIRE_LEASE",
        "a test's helper that plays the clock; it presents what it read under the lock",
    ),
];

#[test]
fn s0_12_no_statement_changes_a_claimed_row_without_its_fence() {
    let mut used = BTreeSet::new();
    let mut unfenced = Vec::new();
    for (file, name, condition) in all_writes() {
        let lacks = missing(&condition);
        let exception = EXCEPTIONS
            .iter()
            .position(|(place, constant, _)| *place == file && *constant == name);
        match exception {
            Some(index) => {
                used.insert(index);
            }
            None if lacks.is_empty() => {}
            None => unfenced.push(format!("{file} {name} lacks {lacks:?}: {condition}")),
        }
    }
    assert!(unfenced.is_empty(), "{unfenced:#?}");
    let stale: Vec<_> = (0..EXCEPTIONS.len())
        .filter(|index| !used.contains(index))
        .map(|index| EXCEPTIONS[index])
        .collect();
    assert!(stale.is_empty(), "exceptions of nothing: {stale:?}");
}

#[test]
fn s0_12_an_exception_takes_rows_that_nobody_owns_or_leaves_the_owner() {
    for (file, name, condition) in all_writes() {
        let Some((_, _, reason)) = EXCEPTIONS
            .iter()
            .find(|(place, constant, _)| *place == file && *constant == name)
        else {
            continue;
        };
        if reason.contains("ready rows") && !reason.contains("too") || reason.contains("generation 0") {
            assert!(condition.contains("state = 'ready'"), "{file} {name}: {condition}");
        } else if reason.contains("dead rows") {
            assert!(condition.contains("state = 'dead'"), "{file} {name}: {condition}");
        } else if !reason.contains("the copy") {
            assert!(condition.contains("state = "), "{file} {name}: {condition}");
        }
    }
}

/// So that a change of the sources does not leave the tests above with nothing to look at.
#[test]
fn s0_12_every_write_in_the_sources_is_looked_at() {
    let seen = all_writes();
    for (backend, constants) in [
        (
            "postgres",
            "BEGIN BEGIN_COUNTED COMPLETE COMPLETE_STRICTLY END END_OPEN FINISH HEARTBEAT PROMOTE PUT_BACK RELEASE SWEEP ADMIT claim claim_selected \
             CLAIM_EVENTS RENEW_EVENTS DELETE_DELIVERED FAIL_EVENTS RELEASE_EVENTS SWEEP_EVENTS REDELIVER DROP_DEAD",
        ),
        (
            "sqlite",
            "BEGIN DELETE_FINISHED DELETE_OPEN HEARTBEAT PROMOTE PUT_BACK RELEASE TAKE_BACK ADMIT CLAIM_IDS CLAIM \
             CLAIM_EVENTS RENEW_EVENTS DELETE_DELIVERED FAIL_EVENTS RELEASE_EVENTS SWEEP_EVENTS REDELIVER DROP_DEAD",
        ),
    ] {
        let names: BTreeSet<_> = seen
            .iter()
            .filter(|(file, ..)| file.starts_with(backend))
            .map(|(_, name, _)| name)
            .collect();
        for constant in constants.split(' ') {
            assert!(names.contains(&constant.to_owned()), "{backend} {constant}: {names:?}");
        }
    }
    assert!(
        seen.iter().all(|(_, _, condition)| !condition.is_empty()),
        "each has a WHERE: {seen:#?}"
    );
    // Nothing outside of the backends writes the table.
    assert!(
        seen.iter()
            .all(|(file, ..)| file.starts_with("postgres/") || file.starts_with("sqlite/")),
        "{seen:#?}"
    );
}

/// SQLite would prepare such a statement anew at every use.
#[test]
fn no_statement_on_sqlite_has_a_bare_bound_limit() {
    let bare = |text: &str| {
        text.match_indices("LIMIT $").any(|(at, found)| {
            let rest = &text[at + found.len()..];
            !rest
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .starts_with(" + 0")
        })
    };
    assert!(bare("LIMIT $2") && bare("LIMIT $2 + 0) LIMIT $3)") && !bare("LIMIT $2 + 0"));
    let folder = sources().join("backend/sqlite");
    let mut looked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            // The documentation shows how it is written.
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            assert!(!bare(&code.collect::<Vec<_>>().join("\n")), "{}", path.display());
            looked += text.matches("LIMIT $").count();
        }
    }
    assert!(looked > 20, "{looked}");
}

#[test]
fn s0_12_a_statement_that_drops_a_part_of_the_fence_is_found() {
    let fenced =
        "WITH ended AS (DELETE FROM leasehold.jobs AS j USING l WHERE j.id = l.id AND j.generation = l.generation
        AND j.lease_token = l.lease_token AND j.state = 'running' RETURNING *) SELECT id FROM ended";
    let lacks = |text: &str| {
        writes(text, "leasehold.jobs")
            .iter()
            .flat_map(|write| missing(write))
            .collect::<Vec<_>>()
    };
    assert_eq!(lacks(fenced), Vec::<&str>::new());
    for (part, name) in [
        ("j.id = l.id AND ", "id"),
        (" AND j.generation = l.generation", "generation"),
        ("\n        AND j.lease_token = l.lease_token", "lease_token"),
        (" AND j.state = 'running'", "state"),
    ] {
        assert_eq!(lacks(&fenced.replace(part, "")), [name]);
    }
    assert_eq!(
        lacks(&fenced.replace("generation =", "generation >=")),
        ["generation", "a plain AND of comparisons"]
    );
    // The fence of the rows that are looked up is not that of the row that is written.
    let beside = "UPDATE leasehold.jobs SET priority = 1 WHERE id = ANY (ARRAY(SELECT id FROM leasehold.jobs
        WHERE generation = $2 AND lease_token = $3 AND state = 'running'))";
    assert_eq!(lacks(beside), ["generation", "lease_token", "state"]);
    let tied = "DELETE FROM leasehold.jobs AS j WHERE j.state = 'running'
        AND EXISTS (SELECT 1 FROM f WHERE j.id = f.id AND j.generation = f.generation AND j.lease_token = f.lease_token)";
    assert_eq!(lacks(tied), Vec::<&str>::new());
    assert_eq!(
        lacks(&tied.replace(" AND j.lease_token = f.lease_token", "")),
        ["lease_token"]
    );
    assert_eq!(
        lacks("UPDATE leasehold.jobs_archive SET priority = 1"),
        Vec::<&str>::new()
    );
}

#[test]
fn s0_12_no_statement_changes_an_owned_row_of_an_application_without_its_fence() {
    // A claim takes what nobody owns, an adoption what has no lease, and a version is none.
    let exceptions = ["claim", "CLAIM", "ADOPT", "UPDATE_VERSION"];
    let mut fenced = Vec::new();
    for (file, name, condition) in owned_row_writes() {
        let condition = condition.replace(['{', '}'], "").replace("r.", "");
        if exceptions.contains(&name.as_str()) {
            continue;
        }
        for column in ["id", "generation", "lease_token", "status"] {
            assert!(
                format!(" {condition}").contains(&format!(" {column} = ")),
                "{file} {name} lacks {column}: {condition}"
            );
        }
        assert!(
            !condition.contains(" OR ") && !condition.contains("NOT "),
            "{file} {name}: {condition}"
        );
        fenced.push(format!("{file} {name}"));
    }
    fenced.sort();
    assert_eq!(
        fenced,
        [
            "postgres/rows END",
            "postgres/rows HEARTBEAT",
            "sqlite/rows END",
            "sqlite/rows HEARTBEAT"
        ]
    );
}
