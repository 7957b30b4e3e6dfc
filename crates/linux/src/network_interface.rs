//! Network interfaces by their names, and network namespaces by theirs.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::system_call::check;

/// Where `ip netns add` puts names of network namespaces.
const NAMED_NAMESPACES: &str = "/run/netns";

/// The first IPv4 address of an interface in the network namespace of this thread.
///
/// # Errors
/// What the kernel says: there is no such interface, or it has no such address.
pub fn interface_address(name: &str) -> io::Result<Ipv4Addr> {
    let bytes = name.as_bytes();
    // SAFETY: all bytes zero are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte of the name stays zero.
    if bytes.is_empty() || bytes.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(bytes) {
        *place = byte.cast_signed();
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the pointer is to a local of the type that SIOCGIFADDR reads and writes.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFADDR, &raw mut request) })?;
    // SAFETY: the kernel has written an address of the family of the socket, which is AF_INET.
    let address: libc::sockaddr_in =
        unsafe { std::mem::transmute_copy(&request.ifr_ifru.ifru_addr) };
    Ok(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()))
}

/// Brings the loopback up, which is down in a new network namespace.
///
/// # Errors
/// What the kernel says.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: all bytes zero are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed();
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let number = socket.as_raw_fd();
    // SAFETY: the pointer is to a local of the type that SIOCGIFFLAGS writes and SIOCSIFFLAGS reads, and the flags are the
    // member that the first one has written.
    unsafe {
        check(libc::ioctl(number, libc::SIOCGIFFLAGS, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(number, libc::SIOCSIFFLAGS, &raw const request)).map(drop)
    }
}

/// A network namespace that has a name (ip-netns(8)).
#[derive(Debug)]
pub struct NamedNetwork(File);

impl NamedNetwork {
    /// Opens the namespace of this name.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn open(name: &str) -> io::Result<Self> {
        File::open(Path::new(NAMED_NAMESPACES).join(name)).map(Self)
    }

    /// Lets a command run in the namespace; starting it fails with `PermissionDenied` without CAP_SYS_ADMIN.
    pub fn enclose(self, command: &mut Command) {
        let enter = move || {
            // SAFETY: setns takes a descriptor that is open, and a number.
            check(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
        };
        // SAFETY: the closure makes one system call, which is async-signal-safe, and allocates nothing.
        unsafe { command.pre_exec(enter) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_loopback_has_its_address() {
        assert_eq!(interface_address("lo").unwrap(), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn what_is_no_interface_is_refused() {
        for name in ["", "no-such-one", "a-name-that-is-too-long"] {
            assert!(interface_address(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_namespace_without_a_name_is_not_found() {
        let refused = NamedNetwork::open("tailbound-no-such-namespace").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    }
}
