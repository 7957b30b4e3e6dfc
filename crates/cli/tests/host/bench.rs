//! A place for one test: its folder, its daemon, and what is left when it is over.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tailbound_control::Client;
use tailbound_linux::HostCapabilities;
use tailbound_linux::capabilities::Feature;
use tailbound_linux::process::die_with_parent;

/// How long the host may take to become clean.
const CLEAN_WITHIN: Duration = Duration::from_secs(60);
/// How long a command may take to say what it is waited for: calibrations go before.
const SAID_WITHIN: Duration = Duration::from_secs(180);

/// One test's place; the next test waits until it is dropped.
pub struct Bench {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    /// A place with the daemon's program.
    pub fn new() -> Self {
        static HOST: Mutex<()> = Mutex::new(());
        let alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("tbt").tempdir().unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        Self {
            folder,
            _alone: alone,
        }
    }

    /// A place for a test that enforces; `None`, said loudly, where that cannot be.
    pub fn enforcing(test: &str) -> Option<Self> {
        static HOST: OnceLock<HostCapabilities> = OnceLock::new();
        let host = HOST.get_or_init(HostCapabilities::probe);
        for needed in [Feature::FreezerV2, Feature::SchedFifo] {
            if !host.has(needed) {
                eprintln!("SKIP {test}: needs {needed}");
                return None;
            }
        }
        if host.online_cpus.len() < 2 {
            eprintln!("SKIP {test}: needs two CPUs");
            return None;
        }
        Some(Self::new())
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The directory of the test's daemon.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// `tailbound` in the place's folder.
    pub fn tailbound(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("TAILBOUND_STATE_DIR", self.state())
            .env("TAILBOUND_HISTORY", self.path().join("predictions.jsonl"))
            .env("TAILBOUND_TAILBOUNDD", daemon())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `tailbound` to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.tailbound(arguments).output().unwrap().into()
    }

    /// Starts `tailbound`, its words in the file `said`.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let said = fs::File::create(self.path().join("said")).unwrap();
        let mut command = self.tailbound(arguments);
        command.stdout(Stdio::null()).stderr(said);
        // A test that fails leaves no command, and so no daemon, to those after it.
        die_with_parent(&mut command).spawn().unwrap()
    }

    /// What the started one has said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.path().join("said")).unwrap_or_default()
    }

    /// Waits until the started one has said `text`.
    pub fn until_said(&self, text: &str) {
        let deadline = Instant::now() + SAID_WITHIN;
        while !self.said().contains(text) {
            assert!(
                Instant::now() < deadline,
                "never said: {text}\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, text: &str) {
        let mut file = fs::File::create(self.path().join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// The client of the test's daemon, if one runs.
    pub fn client(&self) -> Option<Client> {
        Client::connect(&self.state()).ok()
    }

    /// Waits until nothing is in force, ends the daemon, and makes sure that no process, cgroup or
    /// thread of the test is left.
    pub fn assert_clean(&self, domain: &str) {
        let deadline = Instant::now() + CLEAN_WITHIN;
        loop {
            let Some(mut client) = self.client() else {
                break;
            };
            match client.status() {
                Ok(status) if status.reservations.is_empty() => {
                    client.shutdown().unwrap();
                    break;
                }
                Ok(_) | Err(_) => assert!(Instant::now() < deadline, "reservations stay"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        loop {
            let left = self.processes();
            let cgroups = cgroups_named(domain);
            if left.is_empty() && cgroups.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "left: processes {left:?}, cgroups {cgroups:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The processes that run in the folder or name it: services, neighbours, daemons. All their
    /// real-time threads are in them.
    pub fn processes(&self) -> Vec<String> {
        let folder = self.path().to_str().unwrap();
        let mut processes = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let process = entry.path();
            let words = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            let here = fs::read_link(process.join("cwd"));
            if words.contains(folder) || here.is_ok_and(|here| here.starts_with(folder)) {
                processes.push(format!("{} {words:?}", process.display()));
            }
        }
        processes
    }
}

/// How a program ended, and what it said.
pub struct Ended {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// Makes sure of the exit status and of words in what it said.
    pub fn expect(self, status: i32, words: &[&str]) -> Self {
        let text = format!("{}\n{}", self.out, self.err);
        assert_eq!(self.status, Some(status), "{text}");
        for word in words {
            assert!(text.contains(word), "no {word:?} in:\n{text}");
        }
        self
    }
}

/// Sends a signal of kill(1) to a process that the test started.
pub fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status();
    assert!(sent.unwrap().success());
}

/// Whether there is a `redis-server`; if not, that is said loudly.
pub fn redis_is_here(test: &str) -> bool {
    let version = Command::new("redis-server").arg("--version").output();
    let is_here = version.is_ok_and(|output| output.status.success());
    if !is_here {
        eprintln!("SKIP {test}: needs redis-server");
    }
    is_here
}

/// The program of the daemon: built here unless `TAILBOUND_BIN_DIR` says where it is.
pub fn daemon() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(folder) = std::env::var_os("TAILBOUND_BIN_DIR") {
            return PathBuf::from(folder).join("tailboundd");
        }
        let beside = Path::new(env!("CARGO_BIN_EXE_tailbound")).with_file_name("tailboundd");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "tailbound-daemon", "--bins"]);
        if beside
            .parent()
            .is_some_and(|folder| folder.ends_with("release"))
        {
            build.arg("--release");
        }
        assert!(
            build.status().unwrap().success(),
            "tailboundd does not build"
        );
        beside
    })
}

/// Every cgroup of that name, in any hierarchy.
fn cgroups_named(name: &str) -> Vec<PathBuf> {
    let mut cgroups = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_str() == Some(name) {
                cgroups.push(entry.path());
            } else if depth < 4 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    cgroups
}
