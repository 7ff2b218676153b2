//! A throw-away cluster: its own data directory, a unix socket and no port, gone with the process that started it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::find::{Binaries, downloaded, find};

/// Starts the server, tells its process id, and waits for a line that names a signal to stop it with. When the pipe closes
/// without one, the owner is gone, however it ended: nothing is left of the cluster then. A terminal's Ctrl-C is for the
/// owner; the server follows it.
const KEEPER: &str = r#"
trap '' INT HUP TERM
directory=$1
shift
"$@" </dev/null >>"$directory/log" 2>&1 &
server=$!
echo "$server"
if read -r signal; then
    kill -s "$signal" "$server"
    wait "$server"
else
    kill -s QUIT "$server"
    wait "$server"
    rm -rf "$directory"
fi
"#;

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A PostgreSQL server of one's own, that may be stopped, crashed and started again. It is removed on drop, and also when
/// the process ends without one.
///
/// It keeps what it acknowledged, as servers in production do: `fsync`, `full_page_writes` and `synchronous_commit` are on.
#[derive(Debug)]
pub struct Cluster {
    binaries: PathBuf,
    directory: PathBuf,
    user: Option<User>,
    settings: Vec<String>,
    /// The library that tells the server another time.
    clock: Option<PathBuf>,
    /// `None` while the server is down.
    keeper: Option<Child>,
}

/// PostgreSQL refuses to run as root.
#[derive(Debug, Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

/// Starts a server of a test's own.
pub fn cluster() -> Cluster {
    cluster_with(&[])
}

/// Starts a server of a test's own with settings such as `synchronous_commit=off`.
pub fn cluster_with(settings: &[&str]) -> Cluster {
    let binaries = find(None).unwrap_or_else(|message| panic!("{message}"));
    Cluster::start(&binaries, settings)
}

/// As [`cluster_with`], for a server whose clock can be set ([`Cluster::set_clock`]); `None` where libfaketime is not installed.
pub fn cluster_with_clock(settings: &[&str]) -> Option<Cluster> {
    let places = ["/usr/lib", "/usr/local/lib"].into_iter().flat_map(|root| {
        let architecture = format!("{root}/{}-linux-gnu", std::env::consts::ARCH);
        [architecture, root.to_owned()]
    });
    let library = places
        .map(|place| Path::new(&place).join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())?;
    let binaries = find(None).unwrap_or_else(|message| panic!("{message}"));
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    let mut cluster = Cluster::new(binaries.directory, settings);
    cluster.clock = Some(library);
    cluster.set_clock(0);
    cluster.initialise();
    cluster.start_again();
    Some(cluster)
}

impl Cluster {
    /// Makes a cluster and starts its server, with `settings` such as `synchronous_commit=off` over the durable ones.
    pub fn start(binaries: &Binaries, settings: &[&str]) -> Self {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut cluster = Self::new(binaries.directory.clone(), settings);
        cluster.initialise();
        cluster.start_again();
        cluster
    }

    /// A directory for a cluster, empty so far.
    fn new(binaries: PathBuf, settings: Vec<String>) -> Self {
        // Not the temporary directory of the environment: a socket's path has at most 103 bytes on macOS, 107 on Linux.
        // For its owner alone: whoever reaches the socket is a superuser.
        let private = fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new()
            .prefix("leasehold-")
            .permissions(private)
            .tempdir_in("/tmp");
        let mut cluster = Self {
            binaries,
            directory: directory.expect("a directory can be made in /tmp").keep(),
            user: server_user(),
            settings,
            clock: None,
            keeper: None,
        };
        if let Some(User { uid, gid }) = cluster.user {
            chown(&cluster.directory, Some(uid), Some(gid)).expect("root may give a directory away");
        }
        cluster.make_binaries_reachable();
        cluster
    }

    /// Starts an asynchronous standby of this server, that follows it from now on.
    pub fn standby(&self) -> Self {
        let mut standby = Self::new(self.binaries.clone(), self.settings.clone());
        let copied = standby
            .as_server_user(standby.binaries().join("pg_basebackup"))
            .args([
                "--username=postgres",
                "--checkpoint=fast",
                "--wal-method=stream",
                "--write-recovery-conf",
            ])
            .arg("--host")
            .arg(&self.directory)
            .arg("--pgdata")
            .arg(standby.data())
            .status();
        assert!(copied.is_ok_and(|status| status.success()), "the server can be copied");
        standby.start_again();
        standby
    }

    /// The URL of its database `postgres`, as a superuser; other databases can be created beside it.
    pub fn url(&self) -> String {
        format!("postgres://postgres@/postgres?host={}", self.directory.display())
    }

    /// The binaries it runs on, where its user can reach them.
    pub fn binaries(&self) -> &Path {
        &self.binaries
    }

    /// Stops the server in order, and starts it again.
    pub fn restart(&mut self) {
        self.stop(Signal::INT);
        self.start_again();
    }

    /// Stops the server at once, as a crash does: what was not flushed is lost. It stays down until
    /// [`Cluster::start_again`].
    pub fn crash(&mut self) {
        self.stop(Signal::QUIT);
    }

    /// Starts the server after [`Cluster::crash`], and waits until it has recovered.
    pub fn start_again(&mut self) {
        assert!(self.keeper.is_none(), "the server runs already");
        let mut keeper = self.as_server_user("/bin/sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&self.directory);
        if let Some(library) = &self.clock {
            // Read anew at each look at the clock; what measures intervals is left alone.
            let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
            keeper
                .arg("env")
                .arg(setting("LD_PRELOAD", library))
                .arg(setting("FAKETIME_TIMESTAMP_FILE", &self.clock_file()))
                .args([
                    "FAKETIME_NO_CACHE=1",
                    "FAKETIME_DONT_FAKE_MONOTONIC=1",
                    "FAKETIME_DISABLE_SHM=1",
                ]);
        }
        keeper.arg(self.binaries.join("postgres"));
        keeper.arg("-D").arg(self.data()).arg("-k").arg(&self.directory);
        for setting in ["listen_addresses=", "max_connections=300"] {
            keeper.args(["-c", setting]);
        }
        for setting in &self.settings {
            keeper.args(["-c", setting]);
        }
        let mut keeper = keeper
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/bin/sh can be run");
        let mut server = String::new();
        let output = keeper.stdout.take().expect("the keeper's output is a pipe");
        BufReader::new(output)
            .read_line(&mut server)
            .expect("the keeper says what it started");
        self.keeper = Some(keeper);
        self.wait_until_ready(server.trim());
    }

    /// Sets the server's clock so many seconds from the machine's.
    pub fn set_clock(&self, seconds: i64) {
        // Renamed into place: the server reads it at any moment.
        let new = self.directory.join("clock.new");
        fs::write(&new, format!("{seconds:+}\n"))
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&new, self.clock_file()))
            .expect("the clock can be set");
    }

    fn clock_file(&self) -> PathBuf {
        self.directory.join("clock")
    }

    /// Kills a server process (`pg_backend_pid()`) with `SIGKILL`, as the kernel does when memory runs out. The server
    /// then ends all connections and recovers.
    pub fn kill_backend(&self, pid: i32) {
        kill_process(Pid::from_raw(pid).expect("a process id is above 0"), Signal::KILL).expect("the backend lives");
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Root's own directories are closed to the server's user; downloaded binaries run from anywhere.
    fn make_binaries_reachable(&mut self) {
        let postgres = self.binaries.join("postgres");
        let reached = self
            .as_server_user(&postgres)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if reached.is_ok_and(|status| status.success()) {
            return;
        }
        let inside = self.binaries.strip_prefix(downloaded()).map(Path::to_owned);
        let inside = inside.unwrap_or_else(|_| panic!("the server's user cannot run {}", postgres.display()));
        let copy = self.directory.join("binaries");
        let copied = Command::new("cp").arg("-R").arg(downloaded()).arg(&copy).status();
        assert!(
            copied.is_ok_and(|status| status.success()),
            "the binaries can be copied"
        );
        if let Some(User { uid, .. }) = self.user {
            // The keeper removes the copy as the server's user.
            let owned = Command::new("chown").args(["-R", &uid.to_string()]).arg(&copy).status();
            assert!(owned.is_ok_and(|status| status.success()), "root may give files away");
        }
        self.binaries = copy.join(inside);
    }

    fn initialise(&self) {
        let output = self
            .as_server_user(self.binaries.join("initdb"))
            .args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
                "-D",
            ])
            .arg(self.data())
            .output()
            .expect("initdb can be run");
        assert!(
            output.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The server's own word that it takes connections: line 8 of its lock file, below its process id in line 1.
    fn wait_until_ready(&self, server: &str) {
        let begin = Instant::now();
        let file = self.data().join("postmaster.pid");
        loop {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let mut lines = text.lines();
            let ours = lines.next().is_some_and(|pid| pid.trim() == server);
            if ours
                && lines
                    .nth(6)
                    .is_some_and(|status| matches!(status.trim(), "ready" | "standby"))
            {
                return;
            }
            assert!(
                begin.elapsed() < START_DEADLINE,
                "the server does not start:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn stop(&mut self, signal: Signal) {
        let mut keeper = self.keeper.take().expect("the server runs");
        let name = if signal == Signal::INT { "INT" } else { "QUIT" };
        let mut order = keeper.stdin.take().expect("the keeper's input is a pipe");
        writeln!(order, "{name}").expect("the keeper listens");
        keeper.wait().expect("the keeper ends");
    }

    fn as_server_user(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env_remove("PGDATA").env("LC_ALL", "C");
        if let Some(User { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        match self.keeper.take() {
            Some(mut keeper) => {
                drop(keeper.stdin.take());
                let _ = keeper.wait();
            }
            None => {
                let _ = fs::remove_dir_all(&self.directory);
            }
        }
    }
}

/// The user to run a server as: `postgres` if there is one, else `nobody`; `None` when we are not root.
fn server_user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let user = ["postgres", "nobody"].into_iter().find_map(|name| {
        let uid = id("-u", name)?;
        let gid = id("-g", name)?;
        Some(User { uid, gid })
    });
    Some(user.expect("PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody`"))
}

fn id(option: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([option, name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
