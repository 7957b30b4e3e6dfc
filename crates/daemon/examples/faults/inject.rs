//! The faults.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tailbound_linux::clock::step_wall_clock;
use tailbound_linux::process::send_signal;

use crate::trial::Fault;

pub const SIGKILL: i32 = 9;
pub const SIGCONT: i32 = 18;
pub const SIGSTOP: i32 = 19;
/// How far the wall clock is stepped.
const STEP_S: i64 = 3_600;

/// Whom a fault can reach.
pub struct Victims<'a> {
    pub daemon: u32,
    pub watchdog: Option<u32>,
    pub agents: &'a [u32],
    /// The state directory, on a small file system of its own.
    pub directory: &'a Path,
    /// The CPU of the domains.
    pub cpu: u32,
}

/// What a fault needs that this host has not.
pub fn missing(fault: Fault) -> Option<String> {
    match fault {
        Fault::CpuUnplugged => {
            let file = switch_of(1);
            (!file.exists()).then(|| format!("{}", file.display()))
        }
        Fault::ClockBack | Fault::ClockForward => step_wall_clock(0)
            .err()
            .map(|error| format!("a clock that may be set ({error})")),
        _ => None,
    }
}

fn switch_of(cpu: u32) -> PathBuf {
    format!("/sys/devices/system/cpu/cpu{cpu}/online").into()
}

fn kill(pid: u32, signal: i32) {
    // One that has ended by itself meanwhile is no fault of ours.
    let _gone = send_signal(pid, signal);
}

/// A fault that holds until this is undone.
#[must_use]
pub struct Standing {
    fault: Fault,
    directory: PathBuf,
    cpu: u32,
    undone: bool,
}

/// Has the fault happen.
///
/// # Errors
/// Why it cannot.
pub fn inject(fault: Fault, victims: &Victims<'_>) -> Result<Standing, String> {
    match fault {
        Fault::DaemonKilled => kill(victims.daemon, SIGKILL),
        Fault::DaemonStopped => kill(victims.daemon, SIGSTOP),
        Fault::WatchdogKilled => kill(watchdog(victims)?, SIGKILL),
        Fault::WatchdogStopped => kill(watchdog(victims)?, SIGSTOP),
        Fault::BothKilled => {
            // Stopped first, so that it cannot act before it is killed.
            if let Some(watchdog) = victims.watchdog {
                kill(watchdog, SIGSTOP);
            }
            kill(victims.daemon, SIGKILL);
            if let Some(watchdog) = victims.watchdog {
                kill(watchdog, SIGKILL);
            }
        }
        Fault::AgentsKilled => victims.agents.iter().for_each(|pid| kill(*pid, SIGKILL)),
        Fault::DiskFull => fill(victims.directory)?,
        Fault::ReadOnly => make_read_only(victims.directory)?,
        Fault::ClockBack => step(-STEP_S)?,
        Fault::ClockForward => step(STEP_S)?,
        Fault::CpuUnplugged => fs::write(switch_of(victims.cpu), "0")
            .map_err(|error| format!("CPU {} cannot be taken away: {error}", victims.cpu))?,
    }
    Ok(Standing {
        fault,
        directory: victims.directory.to_owned(),
        cpu: victims.cpu,
        undone: false,
    })
}

fn watchdog(victims: &Victims<'_>) -> Result<u32, String> {
    let none = || "there is no watchdog yet".to_owned();
    victims.watchdog.ok_or_else(none)
}

fn step(seconds: i64) -> Result<(), String> {
    step_wall_clock(seconds).map_err(|error| error.to_string())
}

fn filler(directory: &Path) -> PathBuf {
    directory.join("filler")
}

fn fill(directory: &Path) -> Result<(), String> {
    let mut file = fs::File::create(filler(directory)).map_err(|error| error.to_string())?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(())
}

fn make_read_only(directory: &Path) -> Result<(), String> {
    // A file system that is being written to cannot be; its directory can.
    let is_done = ["mount", "chattr"].into_iter().any(|program| {
        let mut command = Command::new(program);
        match program {
            "mount" => command.args(["-o", "remount,ro"]),
            _ => command.arg("+i"),
        };
        succeeds(command.arg(directory))
    });
    let refused = || "neither mount nor chattr makes it read-only".to_owned();
    is_done.then_some(()).ok_or_else(refused)
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Standing {
    /// Undoes what does not pass by itself; once.
    pub fn undo(&mut self) {
        if std::mem::replace(&mut self.undone, true) {
            return;
        }
        match self.fault {
            Fault::DiskFull => {
                let _gone = fs::remove_file(filler(&self.directory));
            }
            Fault::ReadOnly => {
                succeeds(
                    Command::new("mount")
                        .args(["-o", "remount,rw"])
                        .arg(&self.directory),
                );
                succeeds(Command::new("chattr").arg("-i").arg(&self.directory));
            }
            Fault::ClockBack => step(STEP_S).expect("as before"),
            Fault::ClockForward => step(-STEP_S).expect("as before"),
            Fault::CpuUnplugged => fs::write(switch_of(self.cpu), "1").expect("as before"),
            _ => {}
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.undo();
    }
}
