//! What daemon and watchdog say to each other, over the Unix socket that is the watchdog's
//! standard input. Its end is the news that matters most: the other one is dead.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tailbound_linux::control_socket::{receive_with_descriptors, send_with_descriptors};
use tailbound_model::CpuSet;

use tailbound_control::control_frame::{self, ControlDecoder, FrameError};

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub enum WatchOrder {
    /// The first message. With it come the descriptors of the daemon's lock, which the watchdog
    /// holds for as long as it lives, and of the heartbeat of the managers.
    Begin {
        /// The process to watch.
        daemon: u32,
        /// Where its journals lie.
        journals: PathBuf,
    },
    /// Reservations hold on these CPUs now.
    Serves {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Is the watchdog there?
    Ask {},
    /// Everything has been taken back: end.
    Stop {},
}

/// What the watchdog says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "report")]
pub enum WatchReport {
    /// It watches from here on.
    Ready {
        /// `SCHED_FIFO 99`, or why not.
        scheduling: String,
    },
    /// To [`WatchOrder::Ask`].
    Here {},
}

/// Why a message did not come.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other end is closed: its process is dead.
    #[error("the other process is gone")]
    Closed,
    /// The socket failed, or its timeout is up.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// What came is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// One end of the channel.
#[derive(Debug)]
pub struct WatchChannel {
    stream: UnixStream,
    decoder: ControlDecoder,
    descriptors: VecDeque<OwnedFd>,
}

impl WatchChannel {
    /// The end that is `stream`.
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            decoder: ControlDecoder::new(MESSAGE_BYTES_MAX),
            descriptors: VecDeque::new(),
        }
    }

    /// The socket, to wait on and to set timeouts of.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a message, with `descriptors` attached to it.
    ///
    /// # Errors
    /// If the other end is closed, or does not take it in time.
    pub fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let bytes = control_frame::encode(message, MESSAGE_BYTES_MAX)?;
        let sent = send_with_descriptors(&self.stream, &bytes, descriptors)?;
        (&self.stream).write_all(bytes.get(sent..).unwrap_or_default())?;
        Ok(())
    }

    /// The next message; waits for it as long as the socket's timeout.
    ///
    /// # Errors
    /// If the other end is closed, or what came is no message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(payload) = self.decoder.next_payload()? {
                return Ok(control_frame::decode(&payload)?);
            }
            match receive_with_descriptors(&self.stream, &mut bytes) {
                Ok((0, _)) => return Err(ChannelError::Closed),
                Ok((count, descriptors)) => {
                    self.decoder.push(&bytes[..count]);
                    self.descriptors.extend(descriptors);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a message, whole or in part, has been taken in and not been returned yet: waiting on
    /// the socket would then wait too long.
    pub fn has_buffered(&self) -> bool {
        self.decoder.is_within_frame()
    }

    /// The oldest descriptor received and not taken yet.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }
}
