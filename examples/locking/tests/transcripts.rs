//! The demonstrations print what `expected/` says, on whatever version of PostgreSQL.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use leasehold_tests::postgres::{Cluster, URL_VARIABLE, find};
use postgres::{Client, NoTls};

/// Runs the program; what it printed.
#[track_caller]
fn locking(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_locking"))
        .args(arguments)
        .output()
        .expect("the program starts");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?} ended with {}: {complaints}",
        output.status
    );
    String::from_utf8(output.stdout).expect("transcripts are UTF-8")
}

fn start() -> Cluster {
    Cluster::start(&find(None).unwrap_or_else(|message| panic!("{message}")), &[])
}

/// The tests' server, or else one of this program.
fn server() -> String {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    std::env::var(URL_VARIABLE).unwrap_or_else(|_| CLUSTER.get_or_init(start).url())
}

fn expected(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected");
    folder.join(name).with_extension("txt")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A transcript without the line that is another one on another server.
fn comparable(transcript: &str) -> String {
    let lines = transcript.lines().filter(|line| !line.starts_with("PostgreSQL "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[track_caller]
fn prints_what_is_expected(name: &str) {
    let printed = locking(&["--database", &server(), name]);
    let recorded = read(&expected(name));
    assert_eq!(comparable(&printed), comparable(&recorded), "{name} printed\n{printed}");
}

macro_rules! demonstrations {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                prints_what_is_expected(stringify!($name));
            }
        )*

        const COMPARED: &[&str] = &[$(stringify!($name)),*];
    };
}

demonstrations! {
    row_locks all_locked who_waits claim_and_mark work_inside open_claim order table_locks lost_update write_skew
    higher_isolation nowait for_update_of foreign_keys deadlock stale_completion by_id_alone waiting_completion two_jobs
    clocks expired_lease strict_deadline token_reuse
}

#[test]
fn every_demonstration_is_compared_and_in_the_guide() {
    let list = locking(&["--list"]);
    let listed: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, COMPARED);
    let recorded = fs::read_dir(expected("any").with_file_name("")).unwrap_or_else(|error| panic!("{error}"));
    let recorded = recorded
        .flatten()
        .filter_map(|entry| entry.path().file_stem()?.to_str().map(str::to_owned));
    assert_eq!(
        recorded.collect::<BTreeSet<_>>(),
        COMPARED.iter().map(|&name| name.to_owned()).collect()
    );
    let guide = guide();
    let absent: Vec<_> = listed
        .iter()
        .filter(|name| !guide.contains(&format!("`locking {name}`")))
        .collect();
    assert!(absent.is_empty(), "{absent:?}");
}

fn guide() -> String {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/locking.md"))
}

/// The blocks of transcript in the guide, each with the demonstration that was named last before it.
fn quotes(guide: &str) -> Vec<(&str, Vec<&str>)> {
    let mut quotes = Vec::new();
    let mut name = "";
    for (place, part) in guide.split("\n```").enumerate() {
        if place % 2 == 0 {
            let named = part.rsplit_once("`locking ").and_then(|(_, rest)| rest.split_once('`'));
            name = named.map_or(name, |(name, _)| name);
        } else if let Some(block) = part.strip_prefix("text\n") {
            quotes.push((name, block.lines().map(str::trim_end).collect()));
        }
    }
    quotes
}

/// What is left of `lines` after the first place that has `run`, line by line.
fn after<'a, 'b>(lines: &'a [&'b str], run: &[&str]) -> Option<&'a [&'b str]> {
    let place = lines.windows(run.len()).position(|window| window == run)?;
    Some(&lines[place + run.len()..])
}

#[test]
fn what_the_guide_quotes_is_in_the_transcript_that_it_names_in_this_order() {
    let guide = guide();
    let quotes = quotes(&guide);
    assert!(quotes.len() >= COMPARED.len(), "{quotes:#?}");
    for (name, quoted) in quotes {
        let recorded = read(&expected(name));
        let lines: Vec<_> = recorded.lines().map(str::trim_end).collect();
        // Only where the quote says so is something left out.
        let runs = quoted.split(|line| *line == "…");
        let rest = runs
            .into_iter()
            .try_fold(lines.as_slice(), |lines, run| after(lines, run));
        assert!(rest.is_some(), "{name} does not say\n{}", quoted.join("\n"));
    }
}

#[test]
fn s0_31_each_transcript_names_version_isolation_autocommit_and_the_order_of_its_sessions() {
    for name in COMPARED {
        let printed = read(&expected(name));
        let head: Vec<_> = printed.lines().take(4).collect();
        assert!(head[0].starts_with(&format!("{name}: ")), "{head:?}");
        assert!(head[1].starts_with("PostgreSQL "), "{head:?}");
        assert!(
            head[2].starts_with("isolation read committed") && head[2].contains("autocommit"),
            "{head:?}"
        );
        assert!(
            head[3].starts_with("sessions ") && head[3].contains("in the order of this page; no measurement"),
            "{head:?}"
        );
    }
}

fn texts(client: &mut Client, query: &str) -> Vec<String> {
    let rows = client
        .query(query, &[])
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn s0_32_a_database_of_its_own_is_all_that_is_created_and_dropped() {
    let cluster = start();
    let mut client = Client::connect(&cluster.url(), NoTls).unwrap_or_else(|error| panic!("{error}"));
    // Without rights beyond those that it asks for.
    let made = client
        .batch_execute("CREATE ROLE player LOGIN CREATEDB; CREATE TABLE jobs (id bigint); INSERT INTO jobs VALUES (7)");
    made.unwrap_or_else(|error| panic!("{error}"));
    let databases = "SELECT datname::text FROM pg_database ORDER BY datname";
    let before = texts(&mut client, databases);
    let url = cluster.url().replace("postgres@", "player@");
    let printed = locking(&["--database", &url, "row_locks", "work_inside"]);
    assert_eq!(printed.matches("CREATE TABLE jobs").count(), 2, "it played");
    assert_eq!(texts(&mut client, databases), before);
    assert_eq!(texts(&mut client, "SELECT id::text FROM jobs"), ["7"]);
}
