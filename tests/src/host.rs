//! What this host has, and who may use it now.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};
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
}

impl Need {
    /// The need of that name, as documents and messages spell it.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Root, Self::Redis, Self::TwoCpus]
            .into_iter()
            .find(|need| need.to_string() == name)
    }

    /// Whether this host has it.
    pub fn is_met(self) -> bool {
        match self {
            Self::Root => effective_user() == Some(0),
            Self::Redis => Command::new("redis-server")
                .arg("--version")
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success()),
            Self::TwoCpus => std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Root => "root",
            Self::Redis => "redis",
            Self::TwoCpus => "two-cpus",
        })
    }
}

fn effective_user() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
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
