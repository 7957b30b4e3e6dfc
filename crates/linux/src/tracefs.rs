//! The kernel's tracefs: instances of our own, never the global one.
//!
//! Probes of the kernel's functions belong to tracefs as a whole, in groups whose names say the same.
//!
//! tracefs is reached where it is mounted, or by a mount that has no place in the file system
//! (fsmount(2)): it ends with this process, and nobody else sees it. An instance outlives its
//! maker; its name says who made it, so that the next start of anybody removes those whose makers are gone.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::process;
use crate::system_call::{check, descriptor};

/// Where distributions mount it.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The beginning of the names of our instances.
const INSTANCE_PREFIX: &str = "tailbound-trace-";

/// The beginning of the names of our groups of probes.
const PROBE_GROUP_PREFIX: &str = "tailbound_";
/// The file that probes of functions are added to and removed by.
const PROBES: &str = "kprobe_events";

/// tracefs(5), open for use.
#[derive(Debug)]
pub struct TraceFs {
    root: OwnedFd,
}

impl TraceFs {
    /// Opens tracefs, where it is mounted and may be written to, else by a mount of our own.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN where no mount may be written to; `NotFound` where the kernel has no
    /// tracefs.
    pub fn open() -> io::Result<Self> {
        for place in MOUNT_POINTS {
            let path = Path::new(place);
            if path.join("instances").is_dir() && is_writable(&path.join("instances")) {
                let directory = std::fs::OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
                    .open(path)?;
                return Ok(Self {
                    root: directory.into(),
                });
            }
        }
        let root = detached_mount(c"tracefs").map_err(|cause| match cause.raw_os_error() {
            Some(libc::ENODEV) => {
                io::Error::new(io::ErrorKind::NotFound, "this kernel has no tracefs")
            }
            _ => cause,
        })?;
        Ok(Self { root })
    }

    /// The content of a file, such as `events/sched/sched_switch/format`.
    ///
    /// # Errors
    /// What the kernel says; `NotFound` for an event that it does not have.
    pub fn read(&self, path: &str) -> io::Result<String> {
        read_text(&self.root, path)
    }

    /// Makes an instance of our own, after it has removed those whose makers are gone.
    ///
    /// # Errors
    /// What the kernel says, such as that there is no memory for buffers.
    pub fn make_instance(&self) -> io::Result<TraceInstance> {
        self.remove_abandoned();
        let pid = std::process::id();
        let started = process::process_started(pid)?;
        for number in 0_u32.. {
            let name = format!("{INSTANCE_PREFIX}{pid}-{started}-{number}");
            let path = format!("instances/{name}");
            let c_path = c_path(&path)?;
            // SAFETY: the path is a C string that lives through the call.
            let made =
                check(unsafe { libc::mkdirat(self.root.as_raw_fd(), c_path.as_ptr(), 0o700) });
            match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    let directory = open_at(&self.root, &path, libc::O_RDONLY | libc::O_DIRECTORY)?;
                    return Ok(TraceInstance {
                        root: self.root.try_clone()?,
                        directory: directory.into(),
                        path,
                    });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// A group of probes of our own, without a probe yet.
    ///
    /// # Errors
    /// What the kernel says of this process.
    pub fn make_probes(&self) -> io::Result<FunctionProbes> {
        let pid = std::process::id();
        let started = process::process_started(pid)?;
        Ok(FunctionProbes {
            root: self.root.try_clone()?,
            group: format!("{PROBE_GROUP_PREFIX}{pid}_{started}"),
            names: Vec::new(),
        })
    }

    /// Removes the instances and the probes of makers that are gone; how many instances there were.
    pub fn remove_abandoned(&self) -> usize {
        let instances = self.remove_abandoned_instances();
        // A probe can be removed when no instance has its events on.
        for probe in abandoned_probes(&self.read(PROBES).unwrap_or_default()) {
            let _another_maker_may_have = remove_probe(&self.root, &probe);
        }
        instances
    }

    fn remove_abandoned_instances(&self) -> usize {
        let listed = format!("/proc/self/fd/{}/instances", self.root.as_raw_fd());
        let Ok(entries) = std::fs::read_dir(listed) else {
            return 0;
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let abandoned = names.filter(|name| is_abandoned(name)).inspect(|name| {
            // Events that still come would slow the removal down, which switches each kind of them off.
            let path = format!("instances/{name}/tracing_on");
            let _is_removed_anyway = open_at(&self.root, &path, libc::O_WRONLY)
                .and_then(|mut file| file.write_all(b"0"));
        });
        let removed =
            abandoned.filter(|name| remove_at(&self.root, &format!("instances/{name}")).is_ok());
        removed.count()
    }
}

/// Whether an instance is one of ours whose maker is gone.
fn is_abandoned(name: &str) -> bool {
    let words = name.strip_prefix(INSTANCE_PREFIX);
    words.is_some_and(|words| is_maker_gone(words.split('-')))
}

/// The probes, as `GROUP/NAME`, of ours whose makers are gone.
fn abandoned_probes(definitions: &str) -> Vec<String> {
    let probe = |line: &str| {
        // `p:GROUP/NAME FUNCTION ARGUMENTS`, with `r` and a number for returns.
        let (_, rest) = line.split_once(':')?;
        let probe = rest.split_whitespace().next()?;
        let words = probe.split('/').next()?.strip_prefix(PROBE_GROUP_PREFIX)?;
        is_maker_gone(words.split('_')).then(|| probe.to_owned())
    };
    definitions.lines().filter_map(probe).collect()
}

/// Whether no process has the number and the start that the words begin with.
fn is_maker_gone<'a>(words: impl Iterator<Item = &'a str>) -> bool {
    let mut words = words.map(str::parse::<u64>);
    match (words.next(), words.next()) {
        (Some(Ok(pid)), Some(Ok(started))) => {
            let pid = u32::try_from(pid).unwrap_or(0);
            !matches!(process::process_started(pid), Ok(start) if start == started)
        }
        _ => false,
    }
}

/// An instance of tracefs: buffers and events of its own. Dropping it removes it.
#[derive(Debug)]
pub struct TraceInstance {
    root: OwnedFd,
    directory: OwnedFd,
    path: String,
}

impl TraceInstance {
    /// Writes to a file of the instance.
    ///
    /// # Errors
    /// What the kernel says; `NotFound` for a file that it does not have.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = open_at(&self.directory, path, libc::O_WRONLY | libc::O_TRUNC)?;
        file.write_all(text.as_bytes())
    }

    /// The content of a file of the instance.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self, path: &str) -> io::Result<String> {
        read_text(&self.directory, path)
    }

    /// Switches an event on, such as `sched/sched_switch`.
    ///
    /// # Errors
    /// `NotFound` for an event that the kernel does not have.
    pub fn enable(&self, event: &str) -> io::Result<()> {
        self.write(&format!("events/{event}/enable"), "1")
    }

    /// The pages of a CPU's buffer; reading never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_pages(&self, cpu: u32) -> io::Result<File> {
        let path = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        open_at(&self.directory, &path, libc::O_RDONLY | libc::O_NONBLOCK)
    }

    /// A file to write marks into, which become events of the buffer.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_marker(&self) -> io::Result<File> {
        open_at(&self.directory, "trace_marker", libc::O_WRONLY)
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // A reader of its pages keeps the directory; whoever starts next removes it then.
        let _stays_for_the_next = remove_at(&self.root, &self.path);
    }
}

/// Probes of functions of the kernel. Dropping them removes them, once no instance has their events on.
#[derive(Debug)]
pub struct FunctionProbes {
    root: OwnedFd,
    group: String,
    names: Vec<String>,
}

impl FunctionProbes {
    /// Has calls of a function become events `name` with its first argument, `lock`, and the address behind the call,
    /// `caller`; or its returns, with the `result`.
    ///
    /// # Errors
    /// `NotFound` for a kernel without such probes; otherwise what the kernel says, such as that it has no such function
    /// or is locked down.
    pub fn add(&mut self, name: &str, function: &str, is_return: bool) -> io::Result<()> {
        let caller = match cfg!(target_arch = "aarch64") {
            true => "%x30",
            false => "+0(%sp)",
        };
        let path = self.event(name);
        let definition = match is_return {
            false => format!("p:{path} {function} lock=$arg1:u64 caller={caller}:u64\n"),
            true => format!("r:{path} {function} result=$retval:s32\n"),
        };
        append(&self.root, &definition)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Keeps what a thread does out of the events of an instance.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn leave_out(&self, thread: u32, instance: &TraceInstance) -> io::Result<()> {
        let filter = format!("common_pid != {thread}");
        self.names.iter().try_for_each(|name| {
            instance.write(&format!("events/{}/filter", self.event(name)), &filter)
        })
    }

    /// The event of a probe, for [`TraceInstance::enable`].
    pub fn event(&self, name: &str) -> String {
        format!("{}/{name}", self.group)
    }
}

impl Drop for FunctionProbes {
    fn drop(&mut self) {
        for name in &self.names {
            // A probe whose events are on in an instance stays; whoever starts next removes it then.
            let _stays_for_the_next = remove_probe(&self.root, &self.event(name));
        }
    }
}

fn remove_probe(root: &OwnedFd, probe: &str) -> io::Result<()> {
    append(root, &format!("-:{probe}\n"))
}

/// Appends to the list of probes, which a truncation would empty.
fn append(root: &OwnedFd, line: &str) -> io::Result<()> {
    open_at(root, PROBES, libc::O_WRONLY | libc::O_APPEND)?.write_all(line.as_bytes())
}

/// A mount of a file system that has no place, by its descriptor.
fn detached_mount(kind: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the call makes a descriptor that nobody else has.
    let context = unsafe {
        descriptor(system_call_3(
            libc::SYS_fsopen,
            kind.as_ptr() as usize,
            1,
            0,
        ))?
    };
    let create = 6; // FSCONFIG_CMD_CREATE of linux/mount.h
    // SAFETY: the command takes no key, no value and no number.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), create, 0, 0, 0) })?;
    let close_on_exec = 1; // FSMOUNT_CLOEXEC
    let attributes = 0x2 | 0x4 | 0x8; // MOUNT_ATTR_NOSUID, _NODEV, _NOEXEC
    let context = context.as_raw_fd() as usize;
    // SAFETY: the call makes a descriptor that nobody else has.
    unsafe {
        descriptor(system_call_3(
            libc::SYS_fsmount,
            context,
            close_on_exec,
            attributes,
        ))
    }
}

/// A system call with three words, whose result is a descriptor.
///
/// # Safety
/// As that of the call.
unsafe fn system_call_3(number: libc::c_long, one: usize, two: usize, three: usize) -> libc::c_int {
    // SAFETY: by the contract above.
    (unsafe { libc::syscall(number, one, two, three) }) as libc::c_int
}

fn is_writable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the path is a C string that lives through the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

fn c_path(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn open_at(directory: &OwnedFd, path: &str, flags: libc::c_int) -> io::Result<File> {
    let path = c_path(path)?;
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: the path is a C string that lives through the call, which makes a descriptor that nobody else has.
    let opened = unsafe { descriptor(libc::openat(directory.as_raw_fd(), path.as_ptr(), flags))? };
    Ok(File::from(opened))
}

fn read_text(directory: &OwnedFd, path: &str) -> io::Result<String> {
    let mut text = String::new();
    open_at(directory, path, libc::O_RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

fn remove_at(directory: &OwnedFd, path: &str) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that lives through the call.
    let removed =
        unsafe { libc::unlinkat(directory.as_raw_fd(), path.as_ptr(), libc::AT_REMOVEDIR) };
    check(removed).map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn probes_of_others_and_of_living_makers_are_not_abandoned() {
        let pid = std::process::id();
        let started = process::process_started(pid).unwrap();
        let definitions = format!(
            "p:kprobes/mine mutex_lock\np:tailbound_{pid}_{started}/tb_a mutex_lock lock=$arg1:u64\n\
             r8:tailbound_{pid}_{}/tb_b mutex_trylock result=$retval:s32\np:tailbound_x_1/tb_c f\nrubbish\n",
            started + 1
        );
        assert_eq!(
            abandoned_probes(&definitions),
            [format!("tailbound_{pid}_{}/tb_b", started + 1)]
        );
    }

    #[test]
    fn instances_of_others_and_of_living_makers_are_not_abandoned() {
        let pid = std::process::id();
        let started = process::process_started(pid).unwrap();
        assert!(!is_abandoned(&format!(
            "{INSTANCE_PREFIX}{pid}-{started}-0"
        )));
        assert!(is_abandoned(&format!(
            "{INSTANCE_PREFIX}{pid}-{}-0",
            started + 1
        )));
        assert!(is_abandoned(&format!("{INSTANCE_PREFIX}999999999-1-0")));
        for name in [
            "trace-cmd",
            "tailbound-trace-",
            "tailbound-trace-x-1-0",
            "tailbound-modes-17",
        ] {
            assert!(!is_abandoned(name), "{name}");
        }
    }
}
