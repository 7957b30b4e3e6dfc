//! The features of this host, and the lock of tests that need it alone.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Something that a test needs and a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To run as root.
    Root,
    /// A `redis-server` on the PATH.
    Redis,
    /// Two CPUs: one under test, one for the load.
    TwoCpus,
    /// CAP_SYS_NICE, for real-time priorities.
    SysNice,
    /// CAP_IPC_LOCK, for memory that stays.
    IpcLock,
    /// A cgroup v2 hierarchy to make groups in, which can be frozen.
    Freezer,
    /// A C compiler.
    Compiler,
    /// A `python3` on the PATH.
    Python,
}

impl Need {
    /// The need of that name, as documents and messages spell it.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Root,
            Self::Redis,
            Self::TwoCpus,
            Self::SysNice,
            Self::IpcLock,
            Self::Freezer,
            Self::Compiler,
            Self::Python,
        ];
        all.into_iter().find(|need| need.to_string() == name)
    }

    /// Whether this host has it.
    pub fn is_met(self) -> bool {
        match self {
            Self::Root => effective_user() == Some(0),
            Self::Redis => answers("redis-server"),
            Self::Compiler => answers("cc"),
            Self::Python => answers("python3"),
            Self::TwoCpus => std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2),
            Self::SysNice => has_capability(23),
            Self::IpcLock => has_capability(14),
            Self::Freezer => unified_hierarchies().iter().any(|root| can_freeze(root)),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Root => "root",
            Self::Redis => "redis",
            Self::TwoCpus => "two-cpus",
            Self::SysNice => "CAP_SYS_NICE",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::Freezer => "cgroup-v2-freezer",
            Self::Compiler => "cc",
            Self::Python => "python3",
        })
    }
}

/// Whether a program is there.
fn answers(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn effective_user() -> Option<u32> {
    let users = of_own_status("Uid:")?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the capability with that number (linux/capability.h) is effective.
fn has_capability(number: u32) -> bool {
    let effective = of_own_status("CapEff:");
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> number & 1 == 1)
}

/// Where cgroup v2 hierarchies are mounted.
pub fn unified_hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let unified = mounts.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then(|| place.into())
    });
    unified.collect()
}

/// Whether a group can be made there, and has a freezer: the root group has none on any kernel.
fn can_freeze(root: &Path) -> bool {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let group = root.join(format!("tailbound-need-{}-{number}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        return false;
    }
    let has_freezer = group.join("cgroup.freeze").is_file();
    fs::remove_dir(&group).is_ok() && has_freezer
}

fn of_own_status(key: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(key).map(str::to_owned))
}

/// Says loudly that `test` is skipped if one of its needs is not met.
pub fn skip(test: &str, needs: &[Need]) -> bool {
    let Some(missing) = needs.iter().find(|need| !need.is_met()) else {
        return false;
    };
    eprintln!("SKIP {test}: needs {missing}");
    true
}

/// The host to oneself, among the tests of one program: reservations and load of two tests would
/// spoil each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static HOST: Mutex<()> = Mutex::new(());
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}
