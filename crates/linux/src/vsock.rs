//! Sockets between a host and its virtual machines (vsock(7)).

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::system_call::{check, descriptor};

/// The context identifier by which a machine reaches itself.
pub const LOCAL_CID: u32 = libc::VMADDR_CID_LOCAL;

/// A connection that never blocks, once it is made.
#[derive(Debug)]
pub struct VsockStream(File);

impl VsockStream {
    /// Connects to a port of the machine `cid`; a machine that does not answer is given up after the two
    /// seconds that the kernel waits.
    ///
    /// # Errors
    /// What the kernel says, such as that it has no vsock, or that nobody listens.
    pub fn connect(cid: u32, port: u32) -> io::Result<Self> {
        // It must not be under way still when this returns: reads and writes would then fail, and not
        // block as those of a Unix socket do.
        let socket = socket(0)?;
        let address = address(cid, port);
        // SAFETY: `address` is a whole sockaddr_vm, and its size is passed.
        let outcome = unsafe {
            libc::connect(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<libc::sockaddr_vm>() as libc::socklen_t,
            )
        };
        check(outcome)?;
        let mut non_blocking: libc::c_int = 1;
        // SAFETY: the pointer is to a local of the type that FIONBIO reads.
        let outcome =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONBIO, &raw mut non_blocking) };
        check(outcome)?;
        Ok(Self(File::from(socket)))
    }
}

impl Read for VsockStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for VsockStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for VsockStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Listens for guests, and never blocks.
#[derive(Debug)]
pub struct VsockListener(OwnedFd);

impl VsockListener {
    /// Listens at a port for all guests.
    ///
    /// # Errors
    /// What the kernel says, such as that it has no vsock, or that the port is taken.
    pub fn bind(port: u32) -> io::Result<Self> {
        Self::bind_as(libc::VMADDR_CID_ANY, port)
    }

    fn bind_as(cid: u32, port: u32) -> io::Result<Self> {
        let socket = socket(libc::SOCK_NONBLOCK)?;
        let address = address(cid, port);
        // SAFETY: `address` is a whole sockaddr_vm, and its size is passed.
        let outcome = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<libc::sockaddr_vm>() as libc::socklen_t,
            )
        };
        check(outcome)?;
        // SAFETY: listen takes two numbers.
        check(unsafe { libc::listen(socket.as_raw_fd(), 64) })?;
        Ok(Self(socket))
    }

    /// The next connection, with the context identifier of the guest that the kernel says has made it.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else what the kernel says.
    pub fn accept(&self) -> io::Result<(VsockStream, u32)> {
        let mut peer = address(0, 0);
        let mut length = mem::size_of::<libc::sockaddr_vm>() as libc::socklen_t;
        // SAFETY: the pointers are to locals of the length given, and a descriptor is made.
        let socket = unsafe {
            descriptor(libc::accept4(
                self.0.as_raw_fd(),
                (&raw mut peer).cast(),
                &raw mut length,
                libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            ))
        }?;
        Ok((VsockStream(File::from(socket)), peer.svm_cid))
    }
}

impl AsFd for VsockListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether processes of this machine reach each other by [`LOCAL_CID`], for which the kernel needs its
/// loopback transport (CONFIG_VSOCKETS_LOOPBACK).
pub fn has_loopback() -> bool {
    // Connecting would tell as well, but asks the hypervisor where there is no loopback.
    VsockListener::bind_as(LOCAL_CID, libc::VMADDR_PORT_ANY).is_ok()
}

fn socket(flags: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: no pointer is passed, and a descriptor is made.
    unsafe { descriptor(libc::socket(libc::AF_VSOCK, kind, 0)) }
}

fn address(cid: u32, port: u32) -> libc::sockaddr_vm {
    // SAFETY: all zeros is a valid, empty address.
    let mut address: libc::sockaddr_vm = unsafe { mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    address.svm_cid = cid;
    address.svm_port = port;
    address
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nobody_has_connected_to_a_new_port() {
        // Of the ports that programs choose themselves.
        let Ok(listener) = VsockListener::bind(0xFFF0_0000 | std::process::id()) else {
            eprintln!("SKIP nobody_has_connected_to_a_new_port: needs vsock");
            return;
        };
        let none = listener.accept().unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }
}
