//! Network interfaces by their names, and network namespaces by their names or by processes in them.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

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

/// Which network namespace is meant, where it is not that of this process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkPlace {
    /// The one of this name (ip-netns(8)).
    Named(String),
    /// The one of a process.
    OfProcess(u32),
}

impl NetworkPlace {
    /// The words of a shell before a command that is to run there.
    pub fn prefix(&self) -> String {
        match self {
            Self::Named(name) => format!("ip netns exec {name} "),
            Self::OfProcess(pid) => format!("nsenter --net --target {pid} "),
        }
    }

    /// Opens the namespace.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    pub fn open(&self) -> io::Result<NetworkNamespace> {
        let file = match self {
            Self::Named(name) => File::open(Path::new(NAMED_NAMESPACES).join(name)),
            Self::OfProcess(pid) => File::open(format!("/proc/{pid}/ns/net")),
        };
        let is_gone = |error: &io::Error| {
            error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
        };
        file.map(NetworkNamespace).map_err(|error| match self {
            Self::Named(name) if is_gone(&error) => {
                let what = format!("there is no network namespace \"{name}\"");
                io::Error::new(io::ErrorKind::NotFound, what)
            }
            Self::OfProcess(pid) if is_gone(&error) => {
                let what = format!("process {pid} has ended, and its network namespace with it");
                io::Error::new(io::ErrorKind::NotFound, what)
            }
            _ => error,
        })
    }
}

/// A network namespace that is open.
#[derive(Debug)]
pub struct NetworkNamespace(File);

impl NetworkNamespace {
    /// Moves this thread into the namespace.
    pub(crate) fn enter(&self) -> io::Result<()> {
        // SAFETY: setns takes a descriptor that is open, and a number.
        check(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
    }

    /// Lets a command run in the namespace; starting it fails with `PermissionDenied` without CAP_SYS_ADMIN.
    pub fn enclose(self, command: &mut Command) {
        let enter = move || self.enter();
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
    fn a_namespace_that_is_not_there_is_not_found() {
        let named = NetworkPlace::Named("tailbound-no-such-namespace".to_owned());
        // No process has a number beyond what the kernel gives.
        for place in [named, NetworkPlace::OfProcess(u32::MAX)] {
            let refused = place.open().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{place:?}");
        }
        assert!(NetworkPlace::OfProcess(std::process::id()).open().is_ok());
    }
}
