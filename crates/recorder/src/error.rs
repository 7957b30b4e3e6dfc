//! Why nothing can be recorded.

use std::io;

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// tracefs cannot be used.
    #[error("the kernel's events cannot be recorded: {what}: {cause}; {remedy}")]
    Tracefs {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        cause: io::Error,
        /// How to mend it.
        remedy: String,
    },
    /// Functions of the kernel cannot be probed.
    #[error(
        "the kernel's locks cannot be recorded: its functions cannot be probed: {0}; a kernel with CONFIG_KPROBE_EVENTS is \
         needed, and root"
    )]
    Probes(#[source] io::Error),
    /// The file cannot be written.
    #[error("the recording cannot be written: {0}")]
    Write(#[source] io::Error),
    /// A thread of the recorder cannot be started.
    #[error("a thread of the recorder cannot be started: {0}")]
    Thread(#[source] io::Error),
}

impl RecorderError {
    pub(crate) fn tracefs(what: impl Into<String>, cause: io::Error) -> Self {
        let remedy = match cause.kind() {
            io::ErrorKind::PermissionDenied => {
                "run it as root, or mount tracefs for a group that you are in (mount -o gid=GROUP,mode=770 -t tracefs \
                 nodev /sys/kernel/tracing)"
            }
            io::ErrorKind::NotFound => {
                "the kernel needs CONFIG_TRACING; `tailbound doctor` tells what works here"
            }
            io::ErrorKind::OutOfMemory => "ask for smaller buffers with --buffer",
            _ => "`tailbound doctor` tells what works here",
        };
        Self::Tracefs {
            what: what.into(),
            cause,
            remedy: remedy.into(),
        }
    }
}
