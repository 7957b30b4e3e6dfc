//! Starting programs that run on given CPUs and die with us.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts `command` on `cpus` (the caller's own if empty), in a process group of its own, to be
/// killed by the kernel when the calling *thread* ends: call it from a thread that outlives the
/// program, such as the main one.
///
/// # Errors
/// What the kernel says: the program is not there, may not be run, or no such CPU is allowed.
pub fn spawn_on(command: &mut Command, cpus: &BTreeSet<u32>) -> io::Result<Child> {
    let set = if cpus.is_empty() {
        None
    } else {
        Some(cpu_set(cpus)?)
    };
    let parent = std::process::id();
    command.process_group(0);
    let prepare = move || -> io::Result<()> {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes plain integers and is async-signal-safe.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid has no arguments and cannot fail.
        if unsafe { libc::getppid() } as u32 != parent {
            // The parent went before the signal was armed: nobody would end us.
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        }
        if let Some(set) = &set {
            // SAFETY: `set` is a valid cpu_set_t of the size given and outlives the call.
            let refused = unsafe {
                libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), set) != 0
            };
            if refused {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes only async-signal-safe system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Sends SIGTERM to the process group that [`spawn_on`] made for `child`.
///
/// # Errors
/// The group is gone already.
pub fn terminate_group(child: &Child) -> io::Result<()> {
    signal_group(child, libc::SIGTERM)
}

/// Sends SIGKILL to the process group that [`spawn_on`] made for `child`.
///
/// # Errors
/// The group is gone already.
pub fn kill_group(child: &Child) -> io::Result<()> {
    signal_group(child, libc::SIGKILL)
}

fn signal_group(child: &Child, signal: libc::c_int) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: kill takes plain integers; a negative id means the process group.
    if unsafe { libc::kill(-group, signal) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn cpu_set(cpus: &BTreeSet<u32>) -> io::Result<libc::cpu_set_t> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus {
        let index = *cpu as usize;
        if index >= libc::CPU_SETSIZE as usize {
            let text = format!(
                "CPU {cpu} is beyond the {} that a set holds",
                libc::CPU_SETSIZE
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // SAFETY: the index was checked against the size of the set.
        unsafe { libc::CPU_SET(index, &mut set) };
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_child_runs_where_told() {
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        command.stdout(std::process::Stdio::piped());
        let child = spawn_on(&mut command, &BTreeSet::from([0])).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().trim(),
            "Cpus_allowed_list:\t0"
        );
    }

    #[test]
    fn a_cpu_beyond_all_sets_is_refused() {
        let refused = spawn_on(&mut Command::new("true"), &BTreeSet::from([1_000_000]));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
