//! Ports between time partitions, as ARINC 653 has them: messages over memory that the kernel lets only one side write.
//!
//! A **sampling port** has the newest message, which each reader finds with its age and whether it is still valid. A
//! **queuing port** has messages in order; it says when it is full, and when it is empty. No call waits, allocates or
//! enters the kernel but for the clock, and none depends on what the other side does: a partition that hangs, floods or is
//! frozen in the middle of a message holds up nobody.
//!
//! Each side makes the memory that it writes and passes a descriptor of it to the other side, by inheritance or over a
//! Unix socket. From then on nobody can make another mapping to write it, root included (`F_SEAL_FUTURE_WRITE`). What the
//! other side wrote is never trusted: it yields a [`PortError`] or garbled bytes at worst.
//!
//! ```
//! use std::os::fd::AsFd;
//! use tailbound_ports::{PortSize, SamplingReader, SamplingWriter};
//! use tailbound_time::Duration;
//!
//! let size = PortSize { longest: 64, messages: 4 };
//! let mut position = SamplingWriter::create(size)?;
//! // Another process gets the descriptor.
//! let reader = SamplingReader::open(position.as_fd(), Duration::from_millis(20))?;
//! position.write(b"12.5 7.0")?;
//! let mut room = [0; 64];
//! let sample = reader.read(&mut room)?.expect("something was written");
//! assert_eq!(&room[..sample.length], b"12.5 7.0");
//! assert!(sample.age < Duration::from_secs(1));
//! # Ok::<(), tailbound_ports::PortError>(())
//! ```

mod inheritance;
#[cfg(test)]
mod inheritance_tests;
mod memory;
mod queuing_port;
mod sampling_port;
#[cfg(test)]
mod tests;

use std::io;

use tailbound_time::Duration;

pub use inheritance::{
    InheritedPort, InheritedReader, InheritedReceiver, InheritedSender, PORTS_VARIABLE, PortEnd,
    PortEnds, PortRole, inherited, inherited_of,
};
pub use queuing_port::{QueuedMessage, QueuingReceiver, QueuingSender};
pub use sampling_port::{Sample, SamplingReader, SamplingWriter};

/// How large a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSize {
    /// The longest message, in bytes: at most 16 MiB.
    pub longest: usize,
    /// How many messages there is room for: those that may wait in a queuing port, at least one; of a sampling port, two
    /// or more. A reader of a sampling port is overtaken only where so many messages are written while it reads one.
    pub messages: usize,
}

/// Why a port was not opened, or a message not passed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A size that no port has.
    #[error(
        "a port of {messages} messages of {longest} bytes is none: messages have 1 byte to 16 MiB, a queuing port has 1 to \
         65536 of them, and a sampling port 2 to 65536"
    )]
    Size {
        /// The longest message.
        longest: usize,
        /// The number of messages.
        messages: usize,
    },
    /// The kernel refused memory.
    #[error("memory for a port: {cause}")]
    Memory {
        /// What it says.
        cause: io::Error,
    },
    /// The descriptor is not that of such a port.
    #[error("the descriptor is no {expected} of this version: {what}")]
    NoPort {
        /// The port that was expected.
        expected: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// The message is longer than the port takes, or than the room that it is to be copied to.
    #[error("a message of {length} bytes is longer than the {room} bytes that there is room for")]
    TooLong {
        /// The message.
        length: usize,
        /// The room.
        room: usize,
    },
    /// As many messages wait as the port holds. The message was not sent.
    #[error("the port is full: {messages} messages wait to be received")]
    Full {
        /// How many.
        messages: usize,
    },
    /// The writer wrote so often during the read that no message stayed in place.
    #[error("the writer overtook the reader; give the port room for more messages")]
    Overtaken,
    /// This program has no port of that name.
    #[error("this program inherited no port `{name}`: {what}")]
    NotInherited {
        /// The name.
        name: String,
        /// What there is.
        what: String,
    },
    /// This program has the other end of the port.
    #[error("this program has the {role} of port `{name}`, and not the {wanted}")]
    OtherRole {
        /// The name.
        name: String,
        /// The end that the program has.
        role: &'static str,
        /// The end that was asked for.
        wanted: &'static str,
    },
    /// The socket to the other side of an inherited port failed.
    #[error("the socket to the other side of a port: {cause}")]
    Exchange {
        /// What the kernel says.
        cause: io::Error,
    },
    /// What the other side wrote cannot be.
    #[error("the other side of the port wrote what cannot be")]
    Garbled,
}

/// The age of a message by its writer's stamp; a stamp of the future, as from a garbled memory, has none.
fn age_of(stamp_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(stamp_ns))
}
