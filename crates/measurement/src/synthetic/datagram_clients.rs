//! The clients of the synthetic service that send datagrams.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use tailbound_linux::polling::{Interest, Poller};
use tailbound_time::Duration;

use super::ready_queue::{ReadyQueue, SyntheticJob};
use super::request_source::{MessageClients, RequestSource, answer_to, take_up};
use crate::protocol::frame::{FRAME_BYTES, WorkRequest};

/// The longest datagram over IPv4, in bytes.
const LONGEST: usize = 65_507;
/// The token of the one socket.
const SOCKET: u64 = 0;

/// Whoever sends datagrams to one socket.
#[derive(Debug)]
pub(super) struct DatagramClients {
    socket: UdpSocket,
    poller: Poller,
    clients: MessageClients<SocketAddr>,
    buffer: Vec<u8>,
}

impl DatagramClients {
    /// Listens at `address`.
    pub(super) fn listen(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&socket, SOCKET, Interest::Read)?;
        Ok(Self {
            socket,
            poller,
            clients: MessageClients::new(),
            buffer: vec![0; LONGEST],
        })
    }

    fn send(&mut self, frame: &[u8; FRAME_BYTES], length: usize, peer: SocketAddr) {
        self.buffer[..length].fill(0);
        self.buffer[..FRAME_BYTES].copy_from_slice(frame);
        // A reply that cannot be sent is lost, as datagrams may be: the client counts it.
        let _lost = self.socket.send_to(&self.buffer[..length], peer);
    }
}

impl RequestSource for DatagramClients {
    fn receive(&mut self, timeout: Duration, jobs: &mut ReadyQueue) -> io::Result<()> {
        if self.poller.wait(Some(timeout))?.is_empty() {
            return Ok(());
        }
        loop {
            let (length, peer) = match self.socket.recv_from(&mut self.buffer) {
                Ok(came) => came,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    // An earlier reply reached nobody: that client has gone.
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            let frame = self.buffer[..length].first_chunk::<FRAME_BYTES>();
            // Whoever speaks something else gets no answer.
            let Some(Ok(request)) = frame.map(WorkRequest::from_bytes) else {
                continue;
            };
            let number = self.clients.number(peer, length, jobs);
            if let Some(refusal) = take_up(request, number, jobs) {
                self.send(&refusal, length, peer);
            }
        }
    }

    fn answer(&mut self, job: &SyntheticJob) -> io::Result<()> {
        if let Some(client) = self.clients.client(job.client) {
            let (length, address) = (client.length, client.address);
            self.send(&answer_to(job), length, address);
        }
        Ok(())
    }
}
