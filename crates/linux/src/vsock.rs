//! Sockets between a host and its virtual machines (vsock(7)).

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The context identifier of the host.
pub const HOST_CID: u32 = libc::VMADDR_CID_HOST;

/// A connection that never blocks.
#[derive(Debug)]
pub struct VsockStream(File);

impl VsockStream {
    /// Connects to a port of the machine `cid`. The connection may still be under way; then reads and
    /// writes would block, or tell why it cannot be made.
    ///
    /// # Errors
    /// What the kernel says, such as that it has no vsock.
    pub fn connect(cid: u32, port: u32) -> io::Result<Self> {
        let socket = socket()?;
        let address = address(cid, port);
        // SAFETY: `address` is a whole sockaddr_vm, and its size is passed.
        let outcome = unsafe {
            libc::connect(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<libc::sockaddr_vm>() as libc::socklen_t,
            )
        };
        if outcome < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINPROGRESS) {
                return Err(error);
            }
        }
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
        let socket = socket()?;
        let address = address(libc::VMADDR_CID_ANY, port);
        // SAFETY: `address` is a whole sockaddr_vm, and its size is passed.
        let outcome = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<libc::sockaddr_vm>() as libc::socklen_t,
            )
        };
        // SAFETY: listen takes two numbers.
        if outcome < 0 || unsafe { libc::listen(socket.as_raw_fd(), 64) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(socket))
    }

    /// The next connection, with the context identifier of the guest that the kernel says has made it.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else what the kernel says.
    pub fn accept(&self) -> io::Result<(VsockStream, u32)> {
        let mut peer = address(0, 0);
        let mut length = mem::size_of::<libc::sockaddr_vm>() as libc::socklen_t;
        // SAFETY: the pointers are to locals of the length given.
        let number = unsafe {
            libc::accept4(
                self.0.as_raw_fd(),
                (&raw mut peer).cast(),
                &raw mut length,
                libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            )
        };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        Ok((VsockStream(File::from(socket)), peer.svm_cid))
    }
}

impl AsFd for VsockListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointer is passed.
    let number = unsafe { libc::socket(libc::AF_VSOCK, kind, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
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
