//! Ports that a program inherits from the one that started it.
//!
//! Who starts programs makes a [`PortEnds`], and gives each program its ends: sockets, and an entry of the environment
//! variable `TAILBOUND_PORTS`. A program takes its end by name ([`inherited`]). The writing side makes the memory, seals it,
//! and only then sends descriptors of it through the sockets, so that there is no instant at which a reader could map it to
//! write. Until the other side is there, a sampling port has no message and a queuing port is full or empty.
//!
//! An entry is `NAME:ROLE:LONGEST:MESSAGES:VALIDITY:DESCRIPTORS`. The role is `sampling-writer`, `sampling-reader`,
//! `queuing-sender` or `queuing-receiver`; the validity is in nanoseconds, and counts for sampling readers; descriptors
//! are numbers with commas between them, one for each program at the other side. Entries have a space between them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use tailbound_linux::control_socket::{receive_with_descriptors, send_with_descriptors};
use tailbound_linux::spawn::inherited_descriptor;
use tailbound_time::Duration;

use crate::memory::{PortKind, checked};
use crate::{
    PortError, PortSize, QueuedMessage, QueuingReceiver, QueuingSender, Sample, SamplingReader,
    SamplingWriter,
};

/// The environment variable that names the ports of a program.
pub const PORTS_VARIABLE: &str = "TAILBOUND_PORTS";

/// The end of a port that a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRole {
    /// Writes a sampling port.
    SamplingWriter,
    /// Reads a sampling port.
    SamplingReader,
    /// Sends to a queuing port.
    QueuingSender,
    /// Receives from a queuing port.
    QueuingReceiver,
}

impl PortRole {
    const ALL: [Self; 4] = [
        Self::SamplingWriter,
        Self::SamplingReader,
        Self::QueuingSender,
        Self::QueuingReceiver,
    ];

    /// The name in the environment variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::SamplingWriter => "sampling-writer",
            Self::SamplingReader => "sampling-reader",
            Self::QueuingSender => "queuing-sender",
            Self::QueuingReceiver => "queuing-receiver",
        }
    }

    fn kind(self) -> PortKind {
        match self {
            Self::SamplingWriter | Self::SamplingReader => PortKind::Sampling,
            Self::QueuingSender | Self::QueuingReceiver => PortKind::Queue,
        }
    }
}

/// An end of a port on its way to a program: the sockets, and the entry that names them.
#[derive(Debug)]
pub struct PortEnd {
    sockets: Vec<OwnedFd>,
    entry: PortEntry,
}

impl PortEnd {
    /// The entry of the environment variable, once the program has the sockets under the numbers that they have here.
    pub fn entry(&self) -> String {
        use std::os::fd::AsRawFd;
        let numbers = self.sockets.iter().map(|one| one.as_raw_fd().to_string());
        format!(
            "{}{}",
            self.entry.text(),
            numbers.collect::<Vec<_>>().join(",")
        )
    }

    /// The sockets that the program inherits.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }
}

/// A port between programs that are yet to be started.
#[derive(Debug)]
pub struct PortEnds {
    /// The end of the program that writes or sends.
    pub writer: PortEnd,
    /// The ends of the programs that read or receive, in their order.
    pub readers: Vec<PortEnd>,
}

impl PortEnds {
    /// A sampling port with so many readers, whose messages are valid for so long.
    ///
    /// # Errors
    /// [`PortError::Size`], and [`PortError::Exchange`] if the kernel gives no sockets.
    pub fn sampling(
        name: &str,
        size: PortSize,
        valid_for: Duration,
        readers: usize,
    ) -> Result<Self, PortError> {
        let roles = (PortRole::SamplingWriter, PortRole::SamplingReader);
        Self::of(name, size, valid_for, roles, readers)
    }

    /// A queuing port.
    ///
    /// # Errors
    /// As of [`PortEnds::sampling`].
    pub fn queuing(name: &str, size: PortSize) -> Result<Self, PortError> {
        let roles = (PortRole::QueuingSender, PortRole::QueuingReceiver);
        Self::of(name, size, Duration::ZERO, roles, 1)
    }

    fn of(
        name: &str,
        size: PortSize,
        valid_for: Duration,
        (writes, reads): (PortRole, PortRole),
        readers: usize,
    ) -> Result<Self, PortError> {
        checked(size, writes.kind())?;
        let entry = |role| PortEntry {
            name: name.to_owned(),
            role,
            size,
            valid_for,
        };
        let mut writer = PortEnd {
            sockets: Vec::new(),
            entry: entry(writes),
        };
        let mut ends = Vec::new();
        for _ in 0..readers {
            let (there, here) = UnixStream::pair().map_err(exchange)?;
            for socket in [&there, &here] {
                socket.set_nonblocking(true).map_err(exchange)?;
            }
            writer.sockets.push(there.into());
            ends.push(PortEnd {
                sockets: vec![here.into()],
                entry: entry(reads),
            });
        }
        Ok(Self {
            writer,
            readers: ends,
        })
    }
}

fn exchange(cause: io::Error) -> PortError {
    PortError::Exchange { cause }
}

/// An entry of the environment variable without its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PortEntry {
    name: String,
    role: PortRole,
    size: PortSize,
    valid_for: Duration,
}

impl PortEntry {
    fn text(&self) -> String {
        let PortSize { longest, messages } = self.size;
        let (name, role) = (&self.name, self.role.name());
        let validity_ns = self.valid_for.as_nanos();
        format!("{name}:{role}:{longest}:{messages}:{validity_ns}:")
    }

    /// The entry of a text, and the numbers of its descriptors.
    fn parse(text: &str) -> Option<(Self, Vec<i32>)> {
        let parts: Vec<&str> = text.split(':').collect();
        let [name, role, longest, messages, validity, descriptors] = parts[..] else {
            return None;
        };
        let role = PortRole::ALL.into_iter().find(|one| one.name() == role)?;
        let size = PortSize {
            longest: longest.parse().ok()?,
            messages: messages.parse().ok()?,
        };
        checked(size, role.kind()).ok()?;
        let numbers = descriptors.split(',').map(|number| number.parse().ok());
        let numbers: Vec<i32> = numbers.collect::<Option<_>>()?;
        let entry = Self {
            name: name.to_owned(),
            role,
            size,
            valid_for: Duration::from_nanos(validity.parse().ok()?),
        };
        let is_plain = !name.is_empty() && numbers.iter().all(|number| *number > 2);
        let alone = role == PortRole::SamplingWriter || numbers.len() == 1;
        (is_plain && alone).then_some((entry, numbers))
    }
}

/// A port that this program inherited, before it is opened.
#[derive(Debug)]
pub struct InheritedPort {
    entry: PortEntry,
    sockets: Vec<UnixStream>,
}

/// The port of a name that this program inherited.
///
/// # Errors
/// [`PortError::NotInherited`] without such a port; its text names those that there are.
pub fn inherited(name: &str) -> Result<InheritedPort, PortError> {
    inherited_of(&std::env::var(PORTS_VARIABLE).unwrap_or_default(), name)
}

/// The same by the text of the environment variable, for programs that pass the text on in another way.
///
/// # Errors
/// As of [`inherited`].
pub fn inherited_of(variable: &str, name: &str) -> Result<InheritedPort, PortError> {
    let missing = |what: String| PortError::NotInherited {
        name: name.to_owned(),
        what,
    };
    let mut others = Vec::new();
    for text in variable.split_ascii_whitespace() {
        let Some((entry, numbers)) = PortEntry::parse(text) else {
            let what = format!("{PORTS_VARIABLE} has the entry \"{text}\", which no port has");
            return Err(missing(what));
        };
        if entry.name != name {
            others.push(entry.name);
            continue;
        }
        let sockets = numbers.into_iter().map(|number| {
            let descriptor = inherited_descriptor(number).map_err(exchange)?;
            Ok(UnixStream::from(descriptor))
        });
        let sockets = sockets.collect::<Result<_, PortError>>()?;
        return Ok(InheritedPort { entry, sockets });
    }
    Err(missing(match others.is_empty() {
        true => {
            format!("{PORTS_VARIABLE} names none: `tailbound run` starts programs with their ports")
        }
        false => format!("it has {}", others.join(", ")),
    }))
}

impl InheritedPort {
    /// The end of the port that this program has.
    pub fn role(&self) -> PortRole {
        self.entry.role
    }

    /// The size of the port.
    pub fn size(&self) -> PortSize {
        self.entry.size
    }

    /// Opens the end that writes a sampling port.
    ///
    /// # Errors
    /// [`PortError::OtherRole`], [`PortError::Memory`], [`PortError::Exchange`].
    pub fn sampling_writer(self) -> Result<SamplingWriter, PortError> {
        self.check(PortRole::SamplingWriter)?;
        let writer = SamplingWriter::create(self.entry.size)?;
        for socket in &self.sockets {
            pass(socket, writer.as_fd())?;
        }
        Ok(writer)
    }

    /// Opens the end that reads a sampling port.
    ///
    /// # Errors
    /// [`PortError::OtherRole`].
    pub fn sampling_reader(self) -> Result<InheritedReader, PortError> {
        self.check(PortRole::SamplingReader)?;
        Ok(InheritedReader {
            valid_for: self.entry.valid_for,
            socket: self.only_socket()?,
            reader: None,
        })
    }

    /// Opens the end that sends to a queuing port.
    ///
    /// # Errors
    /// As of [`InheritedPort::sampling_writer`].
    pub fn queuing_sender(self) -> Result<InheritedSender, PortError> {
        self.check(PortRole::QueuingSender)?;
        let sender = QueuingSender::create(self.entry.size)?;
        let socket = self.only_socket()?;
        pass(&socket, sender.as_fd())?;
        Ok(InheritedSender { socket, sender })
    }

    /// Opens the end that receives from a queuing port.
    ///
    /// # Errors
    /// [`PortError::OtherRole`].
    pub fn queuing_receiver(self) -> Result<InheritedReceiver, PortError> {
        self.check(PortRole::QueuingReceiver)?;
        Ok(InheritedReceiver {
            socket: self.only_socket()?,
            receiver: None,
        })
    }

    fn check(&self, wanted: PortRole) -> Result<(), PortError> {
        match self.entry.role == wanted {
            true => Ok(()),
            false => Err(PortError::OtherRole {
                name: self.entry.name.clone(),
                role: self.entry.role.name(),
                wanted: wanted.name(),
            }),
        }
    }

    fn only_socket(self) -> Result<UnixStream, PortError> {
        let mut sockets = self.sockets.into_iter();
        sockets
            .next()
            .ok_or_else(|| exchange(io::ErrorKind::NotConnected.into()))
    }
}

/// The reading end of an inherited sampling port.
#[derive(Debug)]
pub struct InheritedReader {
    socket: UnixStream,
    valid_for: Duration,
    reader: Option<SamplingReader>,
}

impl InheritedReader {
    /// Copies the newest message to the begin of `room`; `None` before the first one. Where there is none, or an old one,
    /// the call looks whether a writer is there, or a new one, by a system call; numbers begin anew with a new writer.
    ///
    /// # Errors
    /// As of [`SamplingReader::read`], and [`PortError::NoPort`] if the other side sent something else.
    pub fn read(&mut self, room: &mut [u8]) -> Result<Option<Sample>, PortError> {
        let sample = match &self.reader {
            Some(reader) => reader.read(room)?,
            None => None,
        };
        if sample.is_some_and(|sample| sample.valid) {
            return Ok(sample);
        }
        let Some(memory) = arrived(&self.socket)? else {
            return Ok(sample);
        };
        let reader = SamplingReader::open(memory.as_fd(), self.valid_for)?;
        self.reader.insert(reader).read(room)
    }
}

/// The sending end of an inherited queuing port.
#[derive(Debug)]
pub struct InheritedSender {
    socket: UnixStream,
    sender: QueuingSender,
}

impl InheritedSender {
    /// Sends a message; its number, from 1. Where there is no receiver, or a full one, the call looks whether a receiver is
    /// there, or a new one, by a system call.
    ///
    /// # Errors
    /// As of [`QueuingSender::send`]; [`PortError::NoPort`] if the other side sent something else.
    pub fn send(&mut self, message: &[u8]) -> Result<u64, PortError> {
        let sent = self.sender.send(message);
        // The count of a receiver that came before this sender is garbled to it.
        if !matches!(sent, Err(PortError::Full { .. } | PortError::Garbled)) {
            return sent;
        }
        let Some(memory) = arrived(&self.socket)? else {
            return sent;
        };
        self.sender.connect(memory.as_fd())?;
        self.sender.send(message)
    }
}

/// The receiving end of an inherited queuing port.
#[derive(Debug)]
pub struct InheritedReceiver {
    socket: UnixStream,
    receiver: Option<QueuingReceiver>,
}

impl InheritedReceiver {
    /// Copies the next message to the begin of `room` and takes it out; `None` from an empty port. Where it is empty, the call
    /// looks whether a sender is there, or a new one, by a system call; numbers begin anew with a new sender.
    ///
    /// # Errors
    /// As of [`QueuingReceiver::receive`]; [`PortError::NoPort`] if the other side sent something else.
    pub fn receive(&mut self, room: &mut [u8]) -> Result<Option<QueuedMessage>, PortError> {
        if let Some(receiver) = &mut self.receiver
            && let Some(message) = receiver.receive(room)?
        {
            return Ok(Some(message));
        }
        let Some(memory) = arrived(&self.socket)? else {
            return Ok(None);
        };
        let receiver = QueuingReceiver::open(memory.as_fd())?;
        pass(&self.socket, receiver.as_fd())?;
        self.receiver.insert(receiver).receive(room)
    }
}

/// Sends the descriptor of a memory to the other side.
fn pass(socket: &UnixStream, memory: BorrowedFd<'_>) -> Result<(), PortError> {
    match send_with_descriptors(socket, &[1], &[memory]) {
        // A program that ended needs no port.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map(drop).map_err(exchange),
    }
}

/// The newest descriptor that the other side sent, if it sent one.
fn arrived(socket: &UnixStream) -> Result<Option<OwnedFd>, PortError> {
    let mut newest = None;
    loop {
        match receive_with_descriptors(socket, &mut [0]) {
            Ok((0, _)) => return Ok(newest),
            Ok((_, descriptors)) => newest = descriptors.into_iter().next_back().or(newest),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(newest),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(exchange(error)),
        }
    }
}
