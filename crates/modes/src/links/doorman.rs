//! Lets agents with certificates in.
//!
//! Whoever reaches the port can make the host compute for a handshake. So a thread of ordinary
//! priority shakes hands, with few at a time; mode changes see those alone who have shown a
//! certificate, and wait for nobody else.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Instant as StdInstant;

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tailbound_linux::control_socket::wait_readable;
use tailbound_time::Duration;

use crate::tls::TlsStream;

/// So many may be shaking hands.
const MOST_GUESTS: usize = 32;
/// How long one may take.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(5);
/// So many of them from one address.
const MOST_FROM_ONE: usize = 8;
/// So many are taken per look; nobody who knocks again and again keeps the others from shaking hands.
const MOST_COME: usize = 16;
/// So many visits wait to be taken note of.
const MOST_VISITS: usize = 64;
/// Of those who were sent away it is told so often.
const TOLD_AFTER: std::time::Duration = std::time::Duration::from_secs(1);
/// How often it is looked who takes too long.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// Somebody has come in, or was sent away for a reason.
pub(super) type Visit = Result<(TlsStream, CertificateDer<'static>), String>;

/// The thread that shakes hands.
pub(super) struct Doorman {
    visits: Receiver<Visit>,
    /// Readable when there is a visit; closing it ends the thread.
    bell: UnixStream,
    address: SocketAddr,
}

struct TlsGuest {
    stream: TlsStream,
    from: SocketAddr,
    until: StdInstant,
}

struct Work {
    listener: TcpListener,
    config: Arc<ServerConfig>,
    guests: Vec<TlsGuest>,
    visits: SyncSender<Visit>,
    bell: UnixStream,
    /// When it was told last of one who was sent away.
    rang_at: Option<StdInstant>,
    /// Whether there is one who was sent away and of whom it was not told.
    owes: bool,
}

impl Doorman {
    pub(super) fn start(address: &str, config: Arc<ServerConfig>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (bell, rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rings.set_nonblocking(true)?;
        let (sender, visits) = mpsc::sync_channel(MOST_VISITS);
        let mut work = Work {
            listener,
            config,
            guests: Vec::new(),
            visits: sender,
            bell: rings,
            rang_at: None,
            owes: false,
        };
        let thread = std::thread::Builder::new().name("doorman".into());
        thread.spawn(move || while work.look().is_ok() {})?;
        Ok(Self {
            visits,
            bell,
            address,
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who has come since the last look; `None` after that if nobody will come any more.
    pub(super) fn visits(&mut self) -> (Vec<Visit>, Option<()>) {
        let mut rung = [0; 64];
        let stays = loop {
            match self.bell.read(&mut rung) {
                Ok(0) => break None,
                Ok(count) if count == rung.len() => {}
                Ok(_) | Err(_) => break Some(()),
            }
        };
        (self.visits.try_iter().collect(), stays)
    }
}

impl AsFd for Doorman {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Work {
    /// Looks once at everybody.
    ///
    /// # Errors
    /// When there is nobody left to let guests in for.
    fn look(&mut self) -> io::Result<()> {
        let mut polled = vec![self.bell.as_fd(), self.listener.as_fd()];
        polled.extend(self.guests.iter().map(|guest| guest.stream.as_fd()));
        let ready = wait_readable(&polled, Some(LOOK_AFTER))?;
        let is_ready = |place: usize| {
            let readiness = ready.get(place);
            readiness.is_some_and(|readiness| readiness.readable || readiness.closed)
        };
        if is_ready(0) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let accepts = is_ready(1);
        let moved: Vec<bool> = (0..self.guests.len())
            .map(|place| is_ready(place + 2))
            .collect();
        // From the last on, since sending one away moves those behind it.
        for (place, moved) in moved.into_iter().enumerate().rev() {
            self.attend(place, moved)?;
        }
        if accepts {
            self.accept()?;
        }
        self.ring_for_strangers()
    }

    fn attend(&mut self, place: usize, moved: bool) -> io::Result<()> {
        let guest = &mut self.guests[place];
        let shaken = match moved {
            _ if guest.until < StdInstant::now() => Err(io::ErrorKind::TimedOut.into()),
            true => guest.stream.shake_hands(),
            false => return Ok(()),
        };
        match shaken {
            Ok(false) => Ok(()),
            Ok(true) => {
                let guest = self.guests.swap_remove(place);
                match guest.stream.certificate() {
                    Some(certificate) => self.tell(Ok((guest.stream, certificate))),
                    None => self.tell(Err(format!("{} shows no certificate", guest.from))),
                }
            }
            Err(error) => {
                let guest = self.guests.swap_remove(place);
                self.tell(Err(format!("{} is not let in: {error}", guest.from)))
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..MOST_COME {
            let (socket, from) = match self.listener.accept() {
                Ok(come) => come,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    // Such as for want of descriptors: it stays so for a while.
                    self.tell(Err(format!("nobody is let in: {error}")))?;
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    break;
                }
            };
            let same = |guest: &&TlsGuest| guest.from.ip() == from.ip();
            let of_one = self.guests.iter().filter(same).count();
            if self.guests.len() >= MOST_GUESTS || of_one >= MOST_FROM_ONE {
                self.tell(Err(format!(
                    "{from} is not let in: too many others are at the door"
                )))?;
                continue;
            }
            match self.receive(socket) {
                Ok(stream) => self.guests.push(TlsGuest {
                    stream,
                    from,
                    until: StdInstant::now() + WITHIN,
                }),
                Err(error) => self.tell(Err(format!("{from} is not let in: {error}")))?,
            }
        }
        Ok(())
    }

    fn receive(&self, socket: TcpStream) -> io::Result<TlsStream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        TlsStream::host(socket, &self.config).map_err(io::Error::other)
    }

    fn tell(&mut self, visit: Visit) -> io::Result<()> {
        let is_let_in = visit.is_ok();
        match self.visits.try_send(visit) {
            // One who was let in and is not taken note of connects again.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        match is_let_in {
            true => self.ring(),
            false => {
                self.owes = true;
                self.ring_for_strangers()
            }
        }
    }

    /// Strangers must not wake whoever changes modes at their pleasure.
    fn ring_for_strangers(&mut self) -> io::Result<()> {
        let lately = self.rang_at.is_some_and(|at| at.elapsed() < TOLD_AFTER);
        if !self.owes || lately {
            return Ok(());
        }
        self.rang_at = Some(StdInstant::now());
        self.owes = false;
        self.ring()
    }

    fn ring(&self) -> io::Result<()> {
        match io::Write::write(&mut &self.bell, &[0]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            // A full pipe rings as well as another byte would.
            _ => Ok(()),
        }
    }
}
