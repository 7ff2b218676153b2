//! A command beside a server.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_test_postgres::{BINARIES_VARIABLE, URL_VARIABLE};

#[test]
fn a_cluster_goes_with_a_run_that_is_killed() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_leasehold-test-postgres"))
        .args(["run", "--", "sh", "-c", &format!("echo ${URL_VARIABLE}; read -r line")])
        .env_remove(URL_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let directory = Path::new(line.trim().split_once("host=").unwrap().1);
    assert!(UnixStream::connect(directory.join(".s.PGSQL.5432")).is_ok());
    // The command itself lives on until its input closes.
    let _input = run.stdin.take();
    run.kill().unwrap();
    run.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while directory.exists() {
        assert!(Instant::now() < deadline, "the cluster is removed");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_ends_with_the_exit_code_of_its_command() {
    let status = Command::new(env!("CARGO_BIN_EXE_leasehold-test-postgres"))
        .args([
            "run",
            "--",
            "sh",
            "-c",
            &format!("test -x ${BINARIES_VARIABLE}/postgres && exit 7"),
        ])
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
}
