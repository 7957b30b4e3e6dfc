//! What a host mode manager and the domain mode managers, the agents, say to each other: JSON in
//! the frames of [`tailbound_control::frame`], version 1.
//!
//! ```text
//! agent                                    host
//!   hello  ------------------------------->        once per connection, first
//!          <-------------------------------  welcome
//!          <-------------------------------  change 7: stop a, start b
//!   done 7 ------------------------------->        or: failed 7
//! ```
//!
//! **Change numbers** rise within a domain. The host numbers above what `hello` told, and repeats
//! a change, number and content, until it is answered. The agent
//!
//! - answers a change that it has carried out again, with the same times, and does not carry it out
//!   twice;
//! - ignores a number below the newest one that it heard of on this connection: the link may
//!   repeat, lose and reorder;
//! - carries out a withdrawal of a change that never came by never carrying that change out.
//!
//! The lists of a change say which tasks it stops and which it starts; tasks in neither stay as
//! they are. A host that puts every task of the domain into one of the lists makes a lost change
//! harmless; one that does not waits for the answer before it sends the next.
//!
//! **Times** are instants of the agent's clock that `hello` names. They compare with the host's own
//! only where both read that clock in one boot of one machine.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tailbound_control::frame;
use tailbound_time::{ClockId, Instant};

/// The version of the messages and their meaning.
pub const PROTOCOL_VERSION: u16 = 1;
/// The bytes that begin every frame.
pub const MAGIC: [u8; 2] = *b"TM";
/// The longest payload, in bytes, in either direction.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// The longest name, in bytes: two names of a description with a dot between them.
pub const NAME_BYTES_MAX: usize = 129;
/// The longest text for people, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// The most tasks in one list.
pub const TASKS_MAX: usize = 256;

/// What is said between host and domain mode managers.
#[derive(Debug)]
pub enum ModeProtocol {}

impl frame::FrameProtocol for ModeProtocol {
    const MAGIC: [u8; 2] = MAGIC;
    const VERSION: u16 = PROTOCOL_VERSION;
    const NAME: &'static str = "mode protocol";
    const REMEDY: &'static str = "use tailboundd and tailbound-agent of one release";
}

/// Cuts what a link receives into the payloads of frames.
pub type ModeDecoder = frame::Decoder<ModeProtocol>;

/// A decoder for one end of a link.
pub fn decoder() -> ModeDecoder {
    ModeDecoder::new(PAYLOAD_BYTES_MAX)
}

/// The frame of a [`HostMessage`] or [`AgentMessage`].
///
/// # Errors
/// [`frame::FrameError::TooLong`] beyond [`PAYLOAD_BYTES_MAX`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, frame::FrameError> {
    frame::encode::<ModeProtocol, T>(message, PAYLOAD_BYTES_MAX)
}

/// Why a text is no name on the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{shown:?} is not a name; use small letters, digits, -, _ and ., begun by a letter or digit, at \
     most {NAME_BYTES_MAX} bytes"
)]
pub struct NotAName {
    /// How it begins.
    pub shown: String,
}

/// The name of a domain, a mode or a task, as the description has it; a task of a service is
/// `service.task`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// The name as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let good = text.len() <= NAME_BYTES_MAX
            && text.bytes().next().is_some_and(plain)
            && text
                .bytes()
                .all(|byte| plain(byte) || b"-_.".contains(&byte));
        match good {
            true => Ok(Self(text)),
            false => Err(NotAName {
                shown: text.chars().take(40).collect(),
            }),
        }
    }
}

impl std::str::FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        Self::try_from(text.to_owned())
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

/// A text for people, of at most [`TEXT_BYTES_MAX`] bytes; a longer one is cut when it is made and
/// refused when it is received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    /// The text of `told`, cut to its bound.
    pub fn new(content: impl fmt::Display) -> Self {
        let mut text = content.to_string();
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.len() <= TEXT_BYTES_MAX {
            true => Ok(Self(text)),
            false => Err(D::Error::custom(format_args!(
                "a text of {} bytes; at most {TEXT_BYTES_MAX} are taken",
                text.len()
            ))),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

/// The names of tasks, [`TASKS_MAX`] at most.
fn tasks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Name>, D::Error> {
    let names = Vec::<Name>::deserialize(from)?;
    match names.len() <= TASKS_MAX {
        true => Ok(names),
        false => Err(D::Error::custom(format_args!(
            "a list of {} tasks; at most {TASKS_MAX} are taken",
            names.len()
        ))),
    }
}

/// Which tasks a change stops, and which it starts afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLists {
    /// To be stopped, all of them before the first start.
    pub stop: Vec<Name>,
    /// To be started.
    pub start: Vec<Name>,
}

/// What the host says to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order", deny_unknown_fields)]
pub enum HostMessage {
    /// To `hello`: what should hold now.
    Welcome {
        /// The domain, as the host knows it.
        domain: Name,
        /// The mode that the domain should be in; none where nothing was ever changed.
        mode: Option<Name>,
        /// The newest change that the host has told this domain, whether or not it was answered;
        /// 0 before the first. Smaller ones are stale from here on.
        change: u64,
    },
    /// Switch to another task set.
    Change {
        /// Its number.
        change: u64,
        /// The local mode that the domain is in afterwards.
        mode: Name,
        /// Tasks to start.
        #[serde(deserialize_with = "tasks")]
        start: Vec<Name>,
        /// Tasks to stop, all of them before the first start.
        #[serde(deserialize_with = "tasks")]
        stop: Vec<Name>,
    },
    /// Go back to what held before that change.
    Withdraw {
        /// The number of the change.
        change: u64,
    },
    /// Are you there?
    Ping {
        /// Comes back in `pong`.
        nonce: u64,
    },
    /// To `request`: no, and why.
    Refused {
        /// The mode that was asked for.
        mode: Name,
        /// Why not.
        reason: Text,
    },
}

/// What an agent says to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "report", deny_unknown_fields)]
pub enum AgentMessage {
    /// The first message of a connection.
    Hello {
        /// The domain that it serves.
        domain: Name,
        /// The agent's name and release.
        agent: Text,
        /// The clock that its times are read from.
        clock: AgentClock,
        /// The tasks that it can stop and start.
        #[serde(deserialize_with = "tasks")]
        tasks: Vec<Name>,
        /// Those of them that are started, as far as it can tell.
        #[serde(deserialize_with = "tasks")]
        started: Vec<Name>,
        /// The newest change that it carried out, failed at or had withdrawn; 0 before the first.
        /// The host gives larger numbers to what it has not told yet.
        change: u64,
        /// The mode that its domain is in, where it knows.
        mode: Option<Name>,
    },
    /// A change was carried out: stopped tasks execute nothing any more, started ones may.
    Done {
        /// Its number.
        change: u64,
        /// When the agent had received it.
        received_ns: Instant,
        /// When the tasks had been switched.
        switched_ns: Instant,
    },
    /// A withdrawal was carried out: what held before the change holds.
    Withdrawn {
        /// The number of the change.
        change: u64,
        /// When the agent had received the withdrawal.
        received_ns: Instant,
        /// When the tasks had been switched.
        switched_ns: Instant,
    },
    /// A change, or its withdrawal, was not carried out.
    Failed {
        /// The number of the change.
        change: u64,
        /// Why, for people.
        reason: Text,
        /// Whether what held before the change holds. Never after a failed withdrawal.
        rolled_back: bool,
    },
    /// Something in the domain asks for a global mode.
    Request {
        /// Which one.
        mode: Name,
    },
    /// To `ping`.
    Pong {
        /// As it came.
        nonce: u64,
    },
}

/// Which clock an agent's times are read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentClock {
    /// The clock.
    pub id: ClockId,
    /// The boot of the machine that it counts from; the same clock of another boot, or of another
    /// machine, tells another time.
    pub boot: Text,
}
