//! The Node Resource Interface (NRI) of containerd and CRI-O, from the side of a plugin.
//!
//! A runtime tells its plugins which pods and containers there are, and asks them before a container starts. Both ends
//! call each other over one Unix socket. Three layers lie on it, and each has a file here:
//!
//! - `trunk`: frames with the number of a logical connection. Number 1 carries the calls of the runtime, number 2 those
//!   of the plugin (NRI 0.12, `pkg/net/multiplex`).
//! - `call`: ttRPC, a request or a response in each message (ttRPC 1.2, `PROTOCOL.md`).
//! - `message`: the messages of NRI v1alpha1 in protocol buffers, with those fields that a plugin of ours reads.
//!
//! [`PluginSession`] is a state machine without I/O: received bytes go in, and bytes to send come out.

mod call;
mod message;
mod session;
mod trunk;

pub use message::{LinuxContainer, PodSandbox, RuntimeContainer};
pub use session::{Plugin, PluginSession, Rejection};

/// Why a runtime cannot be talked to any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeProtocolError {
    /// A frame is longer than any message may be.
    #[error("the runtime sends a frame of {bytes} bytes, and {limit} are the most")]
    LongFrame {
        /// The length that the frame claims.
        bytes: usize,
        /// The most that a frame may have.
        limit: usize,
    },
    /// A message of ttRPC is longer than any may be.
    #[error("the runtime sends a message of {bytes} bytes, and {limit} are the most")]
    LongMessage {
        /// The length that the message claims.
        bytes: usize,
        /// The most that a message may have.
        limit: usize,
    },
    /// The runtime does not take the plugin.
    #[error("the runtime refuses the plugin: {0}")]
    Refused(String),
    /// The answer to the registration is none.
    #[error("the runtime's answer to the registration makes no sense: {0}")]
    BadAnswer(String),
}
