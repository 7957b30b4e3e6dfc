//! Datagrams: sockets that several programs read, buffers of a size, several datagrams in one system call.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use tailbound_time::Duration;

use crate::system_call::{check, descriptor, ppoll};

/// The most datagrams that one call of [`receive_datagrams`] receives.
pub const DATAGRAMS_AT_ONCE: usize = 8;

/// Binds a socket to an address that other sockets may be bound to, too, as the receivers of a multicast group are.
///
/// # Errors
/// What the kernel says of the address.
pub fn bind_shared(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call makes a descriptor that is ours.
    let socket = unsafe { descriptor(libc::socket(libc::AF_INET, kind, 0)) }?;
    let socket = UdpSocket::from(socket);
    set_option(&socket, libc::SO_REUSEADDR, 1)?;
    let name = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.ip().octets()),
        },
        sin_zero: [0; 8],
    };
    let length = size_of_val(&name) as libc::socklen_t;
    // SAFETY: `name` is an address of the length that is given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length) })?;
    Ok(socket)
}

/// Gives a socket a receive buffer of at least as many bytes, in the kernel's own account, which counts its overhead; the
/// bytes that it has then. With CAP_NET_ADMIN the limit of the host does not apply.
///
/// # Errors
/// What the kernel says of the socket. A limit is no error: the answer is smaller then.
pub fn grow_receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let size = receive_buffer(socket)?;
    if size >= bytes {
        return Ok(size);
    }
    // The kernel doubles what it is told.
    let half = libc::c_int::try_from(bytes.div_ceil(2)).unwrap_or(libc::c_int::MAX / 2);
    set_option(socket, libc::SO_RCVBUF, half)?;
    if receive_buffer(socket)? < bytes {
        // Without the capability the buffer stays as it is.
        let _ = set_option(socket, libc::SO_RCVBUFFORCE, half);
    }
    receive_buffer(socket)
}

/// The datagrams that the kernel dropped since the socket was made, because its receive buffer was full.
///
/// # Errors
/// What the kernel says of the socket.
pub fn dropped_datagrams(socket: &UdpSocket) -> io::Result<u64> {
    // linux/sock_diag.h: SK_MEMINFO_DROPS is the last of nine numbers.
    let mut numbers = [0_u32; 9];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: `numbers` is a place of the length that is given.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(u64::from(numbers[8]))
}

/// Sends two parts as one datagram on a connected socket, without waiting for room.
///
/// # Errors
/// `WouldBlock` without room; `ConnectionRefused` if nobody listened when the datagram *before* was sent, and this one was
/// not sent; else what the kernel says.
pub fn send_datagram(socket: &UdpSocket, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut parts = [first, second].map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    // SAFETY: all bytes zero are a valid header, without an address and without ancillary data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the parts live through the call, and the kernel only reads them.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) }).map(drop)
}

/// Sends a datagram on a connected socket, without waiting for room. For short datagrams that takes less than
/// [`send_datagram`] with two parts, since the kernel copies no list of parts.
///
/// # Errors
/// As for [`send_datagram`].
#[inline]
pub fn send_whole_datagram(socket: &UdpSocket, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the bytes during the call, and no more of them than there are.
    check(unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    })
    .map(drop)
}

/// The place of the first slot in a page, in bytes. The kernel copies by an instruction that is three times as slow if the
/// target lies a few bytes behind the source within their pages, and the source begins with the page as a rule.
const PLACE_IN_PAGE: usize = 512;
const PAGE: usize = 4_096;
const CACHE_LINE: usize = 64;

/// Memory for datagrams: slots of one length, in a ring.
#[derive(Debug)]
pub struct DatagramSlots {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    slot_length: usize,
    /// The place of the first slot in `bytes`, and the distance of two slots.
    first: usize,
    distance: usize,
}

impl DatagramSlots {
    /// Memory for `count` datagrams of at most `slot_length` bytes; longer ones are cut off.
    pub fn new(count: usize, slot_length: usize) -> Self {
        let distance = match slot_length < PAGE {
            true => slot_length.next_multiple_of(CACHE_LINE),
            false => slot_length.next_multiple_of(PAGE),
        };
        let bytes = vec![0; count * distance + PAGE];
        let begin = bytes.as_ptr().addr() % PAGE;
        Self {
            first: (PAGE + PLACE_IN_PAGE - begin) % PAGE,
            bytes,
            lengths: vec![0; count],
            slot_length,
            distance,
        }
    }

    /// The number of slots.
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// The datagram in a slot.
    pub fn datagram(&self, slot: usize) -> &[u8] {
        let begin = self.first + slot * self.distance;
        &self.bytes[begin..begin + self.lengths[slot]]
    }

    /// The memory of a slot.
    fn memory(&mut self, slot: usize) -> &mut [u8] {
        let begin = self.first + slot * self.distance;
        &mut self.bytes[begin..begin + self.slot_length]
    }
}

/// Receives one datagram into a slot; whether one came. With `waits`, the call waits for it, as long as the socket's timeout
/// for reading says. For one datagram that takes less than [`receive_datagrams`].
///
/// # Errors
/// What the kernel says of the socket; a wait that ended without a datagram is none.
#[inline]
pub fn receive_datagram(
    socket: &UdpSocket,
    slots: &mut DatagramSlots,
    slot: usize,
    waits: bool,
) -> io::Result<bool> {
    let memory = slots.memory(slot);
    let flags = match waits {
        true => 0,
        false => libc::MSG_DONTWAIT,
    };
    let (base, length) = (memory.as_mut_ptr(), memory.len());
    // SAFETY: the kernel writes at most `length` bytes into the slot, which lives through the call.
    match check(unsafe { libc::recv(socket.as_raw_fd(), base.cast(), length, flags) }) {
        Ok(received) => {
            slots.lengths[slot] = (received as usize).min(slots.slot_length);
            Ok(true)
        }
        Err(error) if is_no_datagram(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Receives datagrams that wait into the slots from `first` on, at most [`DATAGRAMS_AT_ONCE`] and at most `most`; after the
/// last slot comes slot 0. How many came.
///
/// # Errors
/// What the kernel says of the socket.
pub fn receive_datagrams(
    socket: &UdpSocket,
    slots: &mut DatagramSlots,
    first: usize,
    most: usize,
) -> io::Result<usize> {
    let count = most.min(DATAGRAMS_AT_ONCE).min(slots.count());
    // SAFETY: all bytes zero are valid headers and parts.
    let mut headers: [libc::mmsghdr; DATAGRAMS_AT_ONCE] = unsafe { std::mem::zeroed() };
    let empty = libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    };
    let mut parts = [empty; DATAGRAMS_AT_ONCE];
    for (place, (header, part)) in headers.iter_mut().zip(&mut parts).take(count).enumerate() {
        let slot = slots.memory((first + place) % slots.count());
        part.iov_base = slot.as_mut_ptr().cast();
        part.iov_len = slot.len();
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    let flags = libc::MSG_DONTWAIT;
    let (base, length) = (headers.as_mut_ptr(), count as libc::c_uint);
    // SAFETY: the first `count` headers each have one part, which is a slot of its own; all live through the call.
    let received =
        unsafe { libc::recvmmsg(socket.as_raw_fd(), base, length, flags, ptr::null_mut()) };
    let received = match check(received) {
        Ok(received) => received as usize,
        Err(error) if is_no_datagram(&error) => 0,
        Err(error) => return Err(error),
    };
    for (place, header) in headers.iter().take(received).enumerate() {
        let slot = (first + place) % slots.lengths.len();
        slots.lengths[slot] = (header.msg_len as usize).min(slots.slot_length);
    }
    Ok(received)
}

/// Waits until a datagram is there, at most this long. Whether one is there; a signal ends the wait.
///
/// # Errors
/// What the kernel says of the socket.
pub fn wait_for_datagram(socket: &UdpSocket, limit: Duration) -> io::Result<bool> {
    let mut polled = [libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }];
    match ppoll(&mut polled, Some(limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether an error of a receiving socket says no more than that nothing came. Nobody listened to what the socket sent
/// (ECONNREFUSED) is no matter of a receiver.
fn is_no_datagram(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    )
}

fn receive_buffer(socket: &UdpSocket) -> io::Result<usize> {
    let mut value: libc::c_int = 0;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` is a place of the length that is given.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw mut value).cast(),
            &raw mut length,
        )
    })?;
    Ok(value as usize)
}

fn set_option(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` has the length that is given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            length,
        )
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;

    use super::*;

    fn sockets() -> (UdpSocket, UdpSocket) {
        let receiver = bind_shared(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn datagrams_come_into_slots_around_the_end_of_the_ring() {
        let (sender, receiver) = sockets();
        let mut slots = DatagramSlots::new(3, 6);
        assert_eq!(receive_datagrams(&receiver, &mut slots, 0, 3).unwrap(), 0);
        send_datagram(&sender, b"ab", b"cd").unwrap();
        send_datagram(&sender, b"", b"longer than a slot").unwrap();
        send_datagram(&sender, b"", b"").unwrap();
        assert!(wait_for_datagram(&receiver, Duration::from_secs(10)).unwrap());
        assert_eq!(receive_datagrams(&receiver, &mut slots, 2, 2).unwrap(), 2);
        assert_eq!(slots.datagram(2), b"abcd");
        assert_eq!(slots.datagram(0), b"longer");
        assert_eq!(receive_datagrams(&receiver, &mut slots, 1, 9).unwrap(), 1);
        assert_eq!(slots.datagram(1), b"");
        send_whole_datagram(&sender, b"whole").unwrap();
        assert!(receive_datagram(&receiver, &mut slots, 2, true).unwrap());
        assert_eq!(slots.datagram(2), b"whole");
        assert!(!receive_datagram(&receiver, &mut slots, 2, false).unwrap());
        assert!(!wait_for_datagram(&receiver, Duration::from_micros(1)).unwrap());
    }

    #[test]
    fn a_full_buffer_drops_and_counts() {
        let (sender, receiver) = sockets();
        assert_eq!(dropped_datagrams(&receiver).unwrap(), 0);
        let size = grow_receive_buffer(&receiver, 1).unwrap();
        let count = size / 512 + 1;
        for _ in 0..count {
            send_datagram(&sender, &[0; 512], b"").unwrap();
        }
        assert!(dropped_datagrams(&receiver).unwrap() > 0);
        let grown = grow_receive_buffer(&receiver, size + 4_096).unwrap();
        assert!(grown >= size);
    }
}
