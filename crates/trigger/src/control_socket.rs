//! The socket by which other processes switch triggers of this one.
//!
//! Lines in, lines out; each answer ends with a line `ok N` or `error TEXT`:
//!
//! | Request | Answer |
//! | --- | --- |
//! | `list` | a line `NAME on\|off COPIES` for each trigger |
//! | `enable PATTERN`, `disable PATTERN` | the number of names that fit |
//! | `record`, with a descriptor (SCM_RIGHTS) | begins to record into it, until `stop` or the end of the connection |
//! | `stop` | ends the recording that this connection began |
//!
//! The socket's name is abstract (unix(7)): it is there for processes of the same network namespace, for as long as
//! the program runs, and leaves nothing behind. Only the same user and root are served.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::switch::{self, disable, enable, triggers};

/// The longest request in bytes.
const LONGEST_LINE: usize = 256;
/// The most connections that are served at a time; further ones are closed.
const CONNECTIONS: usize = 8;

/// The abstract name of the socket of process `pid`.
pub fn socket_name(pid: u32) -> String {
    format!("tailbound-triggers-{pid}")
}

/// Serves requests of other processes to switch and to record triggers of this one, in a thread of its own.
///
/// # Errors
/// `AddrInUse` at the second call, otherwise what the kernel says.
pub fn listen() -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(socket_name(std::process::id()))?;
    let listener = UnixListener::bind_addr(&address)?;
    start(move || {
        // An error of one connection is none of the socket; without descriptors the program has other troubles.
        for stream in listener.incoming().flatten() {
            if SERVED.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS || !is_allowed(&stream) {
                SERVED.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let session = move || {
                // The session ends before the count falls, and the stream after the recording.
                let _ = ControlSession::default().serve(&stream);
                SERVED.fetch_sub(1, Ordering::Relaxed);
            };
            if start(session).is_err() {
                SERVED.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })
}

/// The connections that are served.
static SERVED: AtomicUsize = AtomicUsize::new(0);

fn start(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run = move || {
        block_signals();
        run();
    };
    thread::Builder::new().name("triggers".into()).spawn(run)?;
    Ok(())
}

fn is_allowed(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel fills at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    // SAFETY: geteuid takes nothing.
    result == 0 && (peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}

/// A connection.
#[derive(Default)]
struct ControlSession {
    /// Bytes behind the last line.
    rest: Vec<u8>,
    /// The last descriptor that came.
    file: Option<File>,
    is_recording: bool,
}

impl ControlSession {
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let answer = self.answer(String::from_utf8_lossy(&line).trim());
                send(stream, answer.as_bytes())?;
            }
            if self.rest.len() > LONGEST_LINE {
                return send(stream, b"error a request has at most 256 bytes\n");
            }
            let mut bytes = [0; LONGEST_LINE];
            let (count, file) = receive(stream, &mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            self.file = file.or(self.file.take());
            self.rest.extend(&bytes[..count]);
        }
    }

    fn answer(&mut self, line: &str) -> String {
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        let mut answer = String::new();
        let result = match verb {
            "list" => {
                let triggers = triggers();
                for trigger in &triggers {
                    let state = if trigger.is_enabled { "on" } else { "off" };
                    let _ = writeln!(answer, "{} {state} {}", trigger.name, trigger.copies);
                }
                Ok(triggers.len())
            }
            "enable" => enable(argument).map_err(|error| error.to_string()),
            "disable" => disable(argument).map_err(|error| error.to_string()),
            "record" => self.record().map(|()| 0),
            "stop" => {
                self.stop();
                Ok(0)
            }
            _ => Err(format!(
                "\"{verb}\" is no request; there are list, enable, disable, record and stop"
            )),
        };
        let _ = match result {
            Ok(count) => writeln!(answer, "ok {count}"),
            Err(error) => writeln!(answer, "error {error}"),
        };
        answer
    }

    fn record(&mut self) -> Result<(), String> {
        let Some(file) = self.file.take() else {
            return Err("\"record\" comes with the descriptor of a recording".into());
        };
        // SAFETY: fcntl takes an open descriptor.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            // A file that is shortened under its writers would kill the program.
            return Err("the recording is no memory that is sealed against shrinking".into());
        }
        switch::record_into(&file).map_err(|error| error.to_string())?;
        self.is_recording = true;
        Ok(())
    }

    fn stop(&mut self) {
        if mem::take(&mut self.is_recording) {
            switch::stop();
        }
    }
}

impl Drop for ControlSession {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Leaves signals to the threads of the program; threads of this one inherit it.
fn block_signals() {
    // SAFETY: the set is filled before it is read, and is this thread's.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Sends all bytes; a peer that has gone raises no signal, which the program may not expect.
fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the bytes outlive the call.
        let count = unsafe {
            libc::send(
                stream.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Receives bytes and the last descriptor that came with them. `tailbound-linux` does this for the other crates; this
/// one stands without it in programs of others.
fn receive(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<File>)> {
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = [0_u64; 16];
    let mut file = None;
    // SAFETY: every pointer outlives the call and has the length given, the control buffer is aligned; the kernel
    // writes whole control messages, and each descriptor in them is new and ours.
    let count = unsafe {
        let mut header: libc::msghdr = mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let count = libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        let mut message = if count < 0 {
            std::ptr::null_mut()
        } else {
            libc::CMSG_FIRSTHDR(&raw const header)
        };
        while !message.is_null() {
            let data_bytes = (*message).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            if (*message).cmsg_type == libc::SCM_RIGHTS {
                for place in 0..data_bytes / size_of::<RawFd>() {
                    let raw = libc::CMSG_DATA(message)
                        .cast::<RawFd>()
                        .add(place)
                        .read_unaligned();
                    file = Some(File::from_raw_fd(raw));
                }
            }
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
        count
    };
    match usize::try_from(count) {
        Ok(count) => Ok((count, file)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
