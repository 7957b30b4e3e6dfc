//! The kernel's tracefs: instances of our own, never the global one.
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

    /// Removes the instances of makers that are gone; how many there were.
    pub fn remove_abandoned(&self) -> usize {
        let listed = format!("/proc/self/fd/{}/instances", self.root.as_raw_fd());
        let Ok(entries) = std::fs::read_dir(listed) else {
            return 0;
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let abandoned = names.filter(|name| is_abandoned(name));
        let removed =
            abandoned.filter(|name| remove_at(&self.root, &format!("instances/{name}")).is_ok());
        removed.count()
    }
}

/// Whether an instance is one of ours whose maker is gone.
fn is_abandoned(name: &str) -> bool {
    let Some(words) = name.strip_prefix(INSTANCE_PREFIX) else {
        return false;
    };
    let mut words = words.split('-').map(str::parse::<u64>);
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
