//! Connected sockets of processes, and who is at their other ends.
//!
//! Both ends of a connection are named alike: `tcp:ADDRESS:PORT`, `unix:INODE`, so that the end that a program has of
//! its own socket is found again among the peers of another's.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

use crate::system_call::{check, descriptor};

/// A connected socket of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectedSocket {
    /// The process.
    pub pid: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// The other end.
    pub peer: String,
}

/// The name of an end with this address.
pub fn tcp_end(address: SocketAddr) -> String {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    format!("tcp:{address}")
}

/// The name of the end that a Unix socket of this process is.
///
/// # Errors
/// What the kernel says of the descriptor.
pub fn unix_end(socket: &impl AsFd) -> io::Result<String> {
    let file = fs::File::from(socket.as_fd().try_clone_to_owned()?);
    Ok(format!("unix:{}", file.metadata()?.ino()))
}

/// The connected sockets of processes; those of processes that end meanwhile are left out.
///
/// # Errors
/// The kernel's tables cannot be read.
pub fn sockets_of(pids: &[u32]) -> io::Result<Vec<ConnectedSocket>> {
    let mut sockets = Vec::new();
    // Without the kernel's list of Unix sockets, those of TCP are still told.
    let unix = unix_peers().unwrap_or_default();
    let mut tables: BTreeMap<String, HashMap<u64, String>> = BTreeMap::new();
    for pid in pids {
        let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/net")) else {
            continue;
        };
        let tcp = tables
            .entry(namespace.to_string_lossy().into_owned())
            .or_insert_with(|| tcp_peers(*pid));
        for (number, inode) in socket_inodes(*pid) {
            let peer = match (tcp.get(&inode), unix.get(&inode)) {
                (Some(peer), _) => peer.clone(),
                (None, Some(peer)) => format!("unix:{peer}"),
                (None, None) => continue,
            };
            sockets.push(ConnectedSocket {
                pid: *pid,
                descriptor: number,
                peer,
            });
        }
    }
    Ok(sockets)
}

/// The descriptors of a process that are sockets, with their inodes.
fn socket_inodes(pid: u32) -> Vec<(u32, u64)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let inode = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        Some((number, inode.strip_suffix(']')?.parse().ok()?))
    };
    entries.filter_map(inode).collect()
}

/// The other ends of TCP sockets in the network namespace of a process, by inode.
fn tcp_peers(pid: u32) -> HashMap<u64, String> {
    let mut peers = HashMap::new();
    for table in ["tcp", "tcp6"] {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/net/{table}")) else {
            continue;
        };
        peers.extend(text.lines().skip(1).filter_map(tcp_peer));
    }
    peers
}

/// The inode and the remote end of a line of /proc/net/tcp.
fn tcp_peer(line: &str) -> Option<(u64, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (remote, inode) = (words.get(2)?, words.get(9)?.parse().ok()?);
    let address = socket_address(remote)?;
    (address.port() != 0).then(|| (inode, tcp_end(address)))
}

/// An address as /proc/net/tcp writes it: words in the order of the machine's bytes, and a port.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<u32>> = (0..address.len() / 8)
        .map(|place| u32::from_str_radix(address.get(8 * place..8 * place + 8)?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, UDIAG_SHOW_PEER and UNIX_DIAG_PEER of linux/*_diag.h.
const BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const SHOW_PEER: u32 = 4;
const ATTRIBUTE_PEER: u16 = 2;
/// Bytes of a netlink header, and of the fixed part of an answer.
const NETLINK_HEADER: usize = 16;
const ANSWER_HEADER: usize = 16;

/// The inodes of connected Unix sockets with those of their peers, from the kernel's socket monitoring (sock_diag(7)).
fn unix_peers() -> io::Result<HashMap<u64, u64>> {
    let netlink_sock_diag = 4;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers and makes a descriptor that nobody else has.
    let socket = unsafe { descriptor(libc::socket(libc::AF_NETLINK, kind, netlink_sock_diag))? };
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(SHOW_PEER.to_ne_bytes());
    request.extend([0xff; 8]);
    let raw = socket.as_raw_fd();
    // SAFETY: the request lives through the call, and its length is given.
    check(unsafe { libc::send(raw, request.as_ptr().cast(), request.len(), 0) })?;
    let mut peers = HashMap::new();
    let mut buffer = vec![0_u8; 64 << 10];
    loop {
        // SAFETY: the buffer lives through the call, and its length is given.
        let read = unsafe { libc::recv(raw, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let count = check(read)? as usize;
        if !take_answers(&buffer[..count], &mut peers) {
            return Ok(peers);
        }
    }
}

/// Takes the sockets of a datagram; whether more is to come.
fn take_answers(mut bytes: &[u8], peers: &mut HashMap<u64, u64>) -> bool {
    let half = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_ne_bytes(bytes))
    };
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    while let (Some(length), Some(kind)) = (word(bytes, 0), half(bytes, 4)) {
        let length = (length as usize).min(bytes.len());
        if kind != BY_FAMILY || length < NETLINK_HEADER + ANSWER_HEADER {
            return false;
        }
        let inode = word(bytes, NETLINK_HEADER + 4);
        let mut at = NETLINK_HEADER + ANSWER_HEADER;
        while let (Some(size), Some(attribute)) = (half(bytes, at), half(bytes, at + 2)) {
            let size = usize::from(size);
            if size < 4 || at + size > length {
                break;
            }
            if let (ATTRIBUTE_PEER, Some(inode), Some(peer)) =
                (attribute, inode, word(bytes, at + 4))
            {
                peers.insert(u64::from(inode), u64::from(peer));
            }
            at += size.next_multiple_of(4);
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ends_of_a_connection_name_each_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        let sockets = sockets_of(&[std::process::id()]).unwrap();
        let peer_of = |descriptor: i32| {
            let own = sockets
                .iter()
                .find(|socket| socket.descriptor == descriptor as u32);
            own.map(|socket| socket.peer.clone())
        };
        let end = tcp_end(client.local_addr().unwrap());
        assert_eq!(peer_of(served.as_raw_fd()), Some(end));
        let (one, other) = UnixStream::pair().unwrap();
        let sockets = sockets_of(&[std::process::id()]).unwrap();
        let end = unix_end(&one).unwrap();
        let peer = sockets.iter().find(|socket| socket.peer == end);
        match unix_peers() {
            Ok(_) => assert_eq!(peer.unwrap().descriptor, other.as_raw_fd() as u32),
            Err(cause) => eprintln!("SKIP Unix sockets: needs CONFIG_UNIX_DIAG: {cause}"),
        }
    }

    #[test]
    fn addresses_of_the_kernels_tables_are_read() {
        let line = "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  0 0 4711 1";
        let (inode, peer) = tcp_peer(line).unwrap();
        assert_eq!((inode, peer.as_str()), (4711, "tcp:127.0.0.1:50000"));
        let mapped = "0000000000000000FFFF00000100007F:0050";
        assert_eq!(tcp_end(socket_address(mapped).unwrap()), "tcp:127.0.0.1:80");
        assert_eq!(socket_address("01:zz"), None);
    }
}
