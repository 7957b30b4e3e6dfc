//! Unix sockets with peer credentials, and what a daemon and its watchdog need beside them:
//! passing descriptors, waiting on several of them, locks between processes, handles of processes.

use std::env;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::ptr;
use std::slice;

use tailbound_time::Duration;

use crate::system_call::{check, descriptor, ppoll};

/// The most descriptors that one message carries.
pub const DESCRIPTORS_MAX: usize = 8;

/// Who is at the other end of a Unix socket, as the kernel noted when it was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process, in our process namespace; 0 if it is not visible there.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// Who is at the other end of `stream` (SO_PEERCRED; unix(7)).
///
/// # Errors
/// If the kernel refuses, which it does for sockets that are not connected.
pub fn peer_credentials(stream: &UnixStream) -> io::Result<PeerCredentials> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to a local of the length given, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            ptr::from_mut(&mut credentials).cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok(PeerCredentials {
        pid: u32::try_from(credentials.pid).unwrap_or(0),
        uid: credentials.uid,
        gid: credentials.gid,
    })
}

/// Connects to the socket at `path`, and waits no longer than `limit` for room in the queue of whoever
/// listens: one that is stopped takes nobody in.
///
/// # Errors
/// `WouldBlock` if there is no room within `limit`; else what the kernel says.
pub fn connect_within(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let stream = unix_socket(0)?;
    // The limit of sends bounds connecting as well (unix(7), socket(7)).
    let limit = std::time::Duration::from_nanos(limit.as_nanos().max(1_000_000));
    stream.set_write_timeout(Some(limit))?;
    connect(&stream, path)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Connects to the socket at `path` without ever blocking, not even on a listener whose queue is full.
///
/// # Errors
/// `WouldBlock` where the queue is full, `InvalidInput` where the path is too long or holds a zero
/// byte, and what the kernel says.
pub fn connect_non_blocking(path: &Path) -> io::Result<UnixStream> {
    let stream = unix_socket(libc::SOCK_NONBLOCK)?;
    connect(&stream, path)?;
    Ok(stream)
}

/// The connected Unix socket that this process has inherited as a descriptor; the descriptor itself stays open.
///
/// # Errors
/// The descriptor is not open, or no connected Unix socket.
pub fn inherited(number: RawFd) -> io::Result<UnixStream> {
    // SAFETY: takes integers, and makes another descriptor; one that is not open is refused.
    let own = unsafe { descriptor(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3)) }?;
    let stream = UnixStream::from(own);
    peer_credentials(&stream)?;
    stream.peer_addr()?;
    Ok(stream)
}

/// A socket that is not connected yet.
fn unix_socket(flags: libc::c_int) -> io::Result<UnixStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: takes three integers, and makes a descriptor.
    unsafe { descriptor(libc::socket(libc::AF_UNIX, kind, 0)) }.map(UnixStream::from)
}

fn connect(stream: &UnixStream, path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a Unix socket's path has at most 107 bytes and none of them is zero",
        ));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    let length = mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address lives through the call and is as long as told, zeros at its end included.
    check(unsafe { libc::connect(stream.as_raw_fd(), ptr::from_ref(&address).cast(), length) })
        .map(drop)
}

/// The first descriptor that a service manager passes (sd_listen_fds(3)).
const FIRST_PASSED: RawFd = 3;
/// How many connections may wait to be accepted.
const BACKLOG: libc::c_int = 128;

/// The listening Unix socket that a service manager has passed to this process (sd_listen_fds(3)), if it has. From here on
/// we are the peer of whoever connects (SO_PEERCRED), in place of the manager.
///
/// # Errors
/// `InvalidInput` where several were passed, or no listening Unix socket; else what the kernel says.
pub fn passed_listener() -> io::Result<Option<UnixListener>> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(count) => {
            let text = format!("the service manager passes {count} sockets; one is enough");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    take_listener(FIRST_PASSED).map(Some)
}

/// The listening socket behind an inherited descriptor, which is closed on exec from here on.
fn take_listener(inherited: RawFd) -> io::Result<UnixListener> {
    // A copy, so that nothing of ours is closed if somebody calls this twice.
    // SAFETY: takes two integers, and makes a descriptor or fails.
    let copy = unsafe { descriptor(libc::fcntl(inherited, libc::F_DUPFD_CLOEXEC, FIRST_PASSED)) }?;
    // SAFETY: takes two integers. Where the descriptor is none, the copy has failed.
    check(unsafe { libc::fcntl(inherited, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open. The kernel refuses what is no socket, and notes us as who listens.
    check(unsafe { libc::listen(copy.as_raw_fd(), BACKLOG) })?;
    Ok(UnixListener::from(copy))
}

/// What was found at the end of a wait for one descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketReadiness {
    /// There is something to read, or a connection to accept, or the end of the stream.
    pub readable: bool,
    /// The other end is gone, or the descriptor is in error.
    pub closed: bool,
}

/// Waits until one of `descriptors` is readable or closed, or until `timeout` has passed; `None`
/// waits without end. The answer is in the order of `descriptors`; none is ready after a timeout
/// or a signal.
///
/// # Errors
/// If the kernel refuses the poll.
pub fn wait_readable(
    descriptors: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<SocketReadiness>> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|descriptor| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN | libc::POLLRDHUP,
            revents: 0,
        })
        .collect();
    match ppoll(&mut polled, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Ok(vec![SocketReadiness::default(); descriptors.len()]);
        }
        ready => _ = ready?,
    }
    let closed = libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL;
    Ok(polled
        .iter()
        .map(|entry| SocketReadiness {
            readable: entry.revents & libc::POLLIN != 0,
            closed: entry.revents & closed != 0,
        })
        .collect())
}

/// Whether a short write (at most 4096 bytes) to `descriptor` would not wait: for those who must not
/// be held up by a pipe or terminal that nobody reads.
pub fn takes_short_write(descriptor: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    let ready = ppoll(slice::from_mut(&mut polled), Some(Duration::ZERO));
    ready.is_ok_and(|ready| ready == 1) && polled.revents & libc::POLLOUT != 0
}

/// Sends `payload` with `descriptors` in one message (SCM_RIGHTS; unix(7)); returns how many bytes
/// of `payload` were taken.
///
/// # Errors
/// `InvalidInput` for an empty payload or more than [`DESCRIPTORS_MAX`] descriptors; otherwise what
/// the kernel says.
pub fn send_with_descriptors(
    stream: &UnixStream,
    payload: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if payload.is_empty() || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a message with descriptors carries at least one byte and at most eight descriptors",
        ));
    }
    let mut vector = libc::iovec {
        iov_base: payload.as_ptr().cast_mut().cast(),
        iov_len: payload.len(),
    };
    let mut control = ControlBuffer::new();
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let bytes = mem::size_of_val(raw.as_slice());
    // SAFETY: all zeros is a valid message header; every pointer put in outlives the call, and the
    // control buffer is aligned and long enough for DESCRIPTORS_MAX descriptors.
    let sent = unsafe {
        let mut header: libc::msghdr = mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        if !raw.is_empty() {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
            ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), libc::CMSG_DATA(first), bytes);
        }
        libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
    };
    Ok(check(sent)?.unsigned_abs())
}

/// Receives into `buffer`, with the descriptors that came along, all closed on exec; 0 bytes is the
/// end of the stream.
///
/// # Errors
/// What the kernel says, a timeout of the socket included.
pub fn receive_with_descriptors(
    stream: &UnixStream,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = ControlBuffer::new();
    let mut descriptors = Vec::new();
    // SAFETY: every pointer outlives the call and has the length given; the kernel writes only
    // whole control messages, and each descriptor in them is new and owned by nobody else.
    let received = unsafe {
        let mut header: libc::msghdr = mem::zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = mem::size_of_val(&control.0);
        let received = libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
        if received >= 0 {
            let mut message = libc::CMSG_FIRSTHDR(&raw const header);
            while !message.is_null() {
                collect_descriptors(message, &mut descriptors);
                message = libc::CMSG_NXTHDR(&raw const header, message);
            }
        }
        received
    };
    Ok((check(received)?.unsigned_abs(), descriptors))
}

/// Room for one control message of [`DESCRIPTORS_MAX`] descriptors, aligned as its header wants.
struct ControlBuffer([u64; 16]);

impl ControlBuffer {
    const fn new() -> Self {
        Self([0; 16])
    }
}

/// # Safety
/// `message` points to a whole control message that the kernel wrote.
unsafe fn collect_descriptors(message: *const libc::cmsghdr, into: &mut Vec<OwnedFd>) {
    // SAFETY: by the contract above the header and the data behind it are readable, and its
    // descriptors are open and ours alone.
    unsafe {
        if (*message).cmsg_level != libc::SOL_SOCKET || (*message).cmsg_type != libc::SCM_RIGHTS {
            return;
        }
        let bytes = (*message)
            .cmsg_len
            .saturating_sub(libc::CMSG_LEN(0) as usize);
        let data = libc::CMSG_DATA(message).cast::<RawFd>();
        for index in 0..bytes / mem::size_of::<RawFd>() {
            let raw = ptr::read_unaligned(data.add(index));
            if raw >= 0 {
                into.push(OwnedFd::from_raw_fd(raw));
            }
        }
    }
}

/// Takes the exclusive lock of `file` (flock(2)) unless another open file description has it;
/// tells whether it was taken. The lock lives until the last copy of the descriptor is closed, so
/// a copy handed to another process keeps it.
///
/// # Errors
/// Anything but "locked by another".
pub fn try_lock_exclusively(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match check(result) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes this process the leader of a new session without a terminal (setsid(2)), so that signals
/// to the old terminal or process group do not reach it.
///
/// # Errors
/// `PermissionDenied` if it leads a process group already.
pub fn begin_session() -> io::Result<()> {
    // SAFETY: takes nothing.
    check(unsafe { libc::setsid() }).map(drop)
}

/// A handle of a process that stays that of this process when its number is used again
/// (pidfd_open(2)). It is readable once the process has ended.
#[derive(Debug)]
pub struct ProcessHandle {
    descriptor: OwnedFd,
}

impl ProcessHandle {
    /// The handle of the process `pid`.
    ///
    /// # Errors
    /// `NotFound`-like (ESRCH) if there is none.
    pub fn open(pid: u32) -> io::Result<Self> {
        let descriptor = open_handle(pid, 0)?;
        Ok(Self { descriptor })
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// ESRCH if the process has been reaped; `PermissionDenied` if it is not ours.
    pub fn kill(&self) -> io::Result<()> {
        send_by_handle(self.as_fd(), libc::SIGKILL)
    }

    /// Whether the process ended within `timeout`.
    ///
    /// # Errors
    /// If the kernel refuses the poll.
    pub fn wait_ended(&self, timeout: Duration) -> io::Result<bool> {
        let ready = wait_readable(&[self.descriptor.as_fd()], Some(timeout))?;
        Ok(ready.iter().any(|one| one.readable || one.closed))
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A handle of the process or thread `id` (pidfd_open(2)).
pub(crate) fn open_handle(id: u32, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers, and makes a descriptor, which the kernel closes on exec.
    unsafe { descriptor(libc::syscall(libc::SYS_pidfd_open, id, flags) as libc::c_int) }
}

/// Sends a signal to the process or thread of a handle.
pub(crate) fn send_by_handle(handle: BorrowedFd<'_>, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open; a null siginfo is allowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            handle.as_raw_fd(),
            signal,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    check(result).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::io::{Read, Write};

    use super::*;
    use crate::process::effective_uid;

    #[test]
    fn the_peer_of_a_socketpair_is_ourselves() {
        let (left, _right) = UnixStream::pair().unwrap();
        let peer = peer_credentials(&left).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, effective_uid());
    }

    #[test]
    fn nobody_is_waited_for_in_a_full_queue_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(connect_within(&path, Duration::from_millis(1)).is_err());
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut queue = Vec::new();
        // Who listens takes nobody in.
        let refused = loop {
            match connect_within(&path, Duration::from_millis(20)) {
                Ok(stream) => queue.push(stream),
                Err(error) => break error,
            }
            assert!(queue.len() < 100_000);
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "{refused}");
        assert!(!queue.is_empty());
    }

    #[test]
    fn a_passed_listener_takes_connections_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bound = UnixListener::bind(&path).unwrap();
        let taken = take_listener(bound.as_raw_fd()).unwrap();
        assert_eq!(taken.local_addr().unwrap().as_pathname(), Some(&*path));
        drop(bound);
        let _client = UnixStream::connect(&path).unwrap();
        taken.accept().unwrap();
        let file = File::open(folder.path()).unwrap();
        assert!(take_listener(file.as_raw_fd()).is_err());
        assert!(passed_listener().unwrap().is_none());
    }

    #[test]
    fn descriptors_travel_with_their_message() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        let sent = send_with_descriptors(&left, b"take this", &[other.as_fd()]).unwrap();
        assert_eq!(sent, 9);
        drop(other);
        let mut buffer = [0; 32];
        let (count, mut descriptors) = receive_with_descriptors(&right, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"take this");
        assert_eq!(descriptors.len(), 1);
        let mut received = UnixStream::from(descriptors.remove(0));
        received.write_all(b"through").unwrap();
        drop(received);
        let mut text = String::new();
        one.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn all_descriptors_of_a_full_message_arrive_and_one_more_is_refused() {
        let (left, right) = UnixStream::pair().unwrap();
        let many = vec![left.as_fd(); DESCRIPTORS_MAX];
        send_with_descriptors(&left, b"x", &many).unwrap();
        let (_, descriptors) = receive_with_descriptors(&right, &mut [0; 1]).unwrap();
        assert_eq!(descriptors.len(), DESCRIPTORS_MAX);
        let too_many = vec![left.as_fd(); DESCRIPTORS_MAX + 1];
        assert!(send_with_descriptors(&left, b"x", &too_many).is_err());
        assert!(send_with_descriptors(&left, b"", &[]).is_err());
    }

    #[test]
    fn a_closed_peer_ends_a_wait() {
        let (left, right) = UnixStream::pair().unwrap();
        let idle = wait_readable(&[left.as_fd()], Some(Duration::from_millis(1))).unwrap();
        assert_eq!(idle, [SocketReadiness::default()]);
        drop(right);
        let closed = wait_readable(&[left.as_fd()], None).unwrap();
        assert!(closed[0].closed);
    }

    #[test]
    fn a_full_pipe_takes_no_write() {
        let (reader, mut writer) = io::pipe().unwrap();
        let page = [0; 4096];
        let mut pages = 0;
        while takes_short_write(writer.as_fd()) {
            writer.write_all(&page).unwrap();
            pages += 1;
        }
        assert!(pages > 0);
        drop(reader);
    }

    #[test]
    fn a_lock_is_kept_by_every_copy_of_its_descriptor() {
        let path = std::env::temp_dir().join(format!("tailbound-lock-{}", std::process::id()));
        let first = File::create(&path).unwrap();
        let second = File::create(&path).unwrap();
        assert!(try_lock_exclusively(&first).unwrap());
        assert!(!try_lock_exclusively(&second).unwrap());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(!try_lock_exclusively(&second).unwrap());
        drop(copy);
        assert!(try_lock_exclusively(&second).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_process_handle_kills_and_sees_the_end() {
        let mut child = std::process::Command::new("sleep")
            .arg("20")
            .spawn()
            .unwrap();
        let handle = ProcessHandle::open(child.id()).unwrap();
        assert!(!handle.wait_ended(Duration::from_millis(1)).unwrap());
        handle.kill().unwrap();
        assert!(handle.wait_ended(Duration::from_secs(20)).unwrap());
        child.wait().unwrap();
        assert!(handle.kill().is_err());
    }
}
