//! A connection by topics: requests are published on one topic, replies come on another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};
use tailbound_linux::thread::{WakeUp, make_current_thread_fifo};
use tailbound_pubsub::messages::Quality;
use tailbound_pubsub::{
    DataSpace, PublishError, Publisher, Subscriber, Topic, TransportError, named_transport,
    transport_feature,
};
use tailbound_time::{Clock, Duration};

use crate::endpoint::TopicEndpoint;
use crate::message_link::{IncomingFrame, MessageLink, frame_of};
use crate::protocol::frame::{FRAME_BYTES, WorkRequest};

/// The bytes behind the frame that say which connection a message belongs to.
const CONNECTION_BYTES: usize = 8;
/// The most connections at once: transports make room for each.
const CONNECTIONS: u32 = 8;
/// The messages that wait for either side.
const HISTORY: u32 = 16;
/// How long a service may take to answer the first greeting: transports look for each other first.
const GREETING_LIMIT: Duration = Duration::from_secs(2);
/// The time from greeting to greeting.
const GREETING_DISTANCE: Duration = Duration::from_millis(20);
/// The number of the requests that are greetings.
const GREETING: u64 = u64::MAX;
/// The time after which the thread that receives looks whether it shall end.
const ATTENTION: Duration = Duration::from_millis(50);

/// The two topics of a service with messages of `size` bytes.
pub(crate) struct WorkTopics {
    space: DataSpace,
    requests: Topic,
    replies: Topic,
}

/// A message of a topic: a frame, and the connection that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicMessage {
    pub(crate) frame: [u8; FRAME_BYTES],
    pub(crate) connection: u64,
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct TopicLink {
    publisher: Publisher,
    connection: u64,
    message: Vec<u8>,
    inbox: Receiver<Result<IncomingFrame, String>>,
    wake: Arc<WakeUp>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WorkTopics {
    /// Joins the data space.
    ///
    /// # Errors
    /// What the transport says.
    pub(crate) fn join(endpoint: &TopicEndpoint, size: usize) -> io::Result<Self> {
        let opened = named_transport(&endpoint.transport, &endpoint.address);
        let opened = opened.ok_or_else(|| absent(&endpoint.transport))?;
        let transport = opened.map_err(io::Error::other)?;
        let topic = |name: &str, publishers, subscribers| Topic {
            publishers,
            subscribers,
            quality: Quality {
                history: HISTORY,
                ..Quality::default()
            },
            ..Topic::new(name, "tailbound.synthetic-service", size)
        };
        Ok(Self {
            space: DataSpace::over(transport, Arc::new(Monotonic)),
            requests: topic("synthetic-requests", CONNECTIONS, 1),
            replies: topic("synthetic-replies", 1, CONNECTIONS),
        })
    }

    /// The ends of a service.
    ///
    /// # Errors
    /// What the transport says.
    pub(crate) fn of_service(&self) -> Result<(Subscriber, Publisher), TransportError> {
        let requests = self.space.subscriber(&self.requests)?;
        Ok((requests, self.space.publisher(&self.replies)?))
    }

    fn of_client(&self) -> Result<(Subscriber, Publisher), TransportError> {
        let replies = self.space.subscriber(&self.replies)?;
        Ok((replies, self.space.publisher(&self.requests)?))
    }
}

/// The refusal of a transport that this build does not have.
fn absent(name: &str) -> io::Error {
    let what = match transport_feature(name) {
        Some(feature) => {
            format!(
                "this build has no transport `{name}`: build tailbound-cli with `--features {feature}`"
            )
        }
        None => format!("there is no transport `{name}`; take `udp`"),
    };
    io::Error::new(io::ErrorKind::Unsupported, what)
}

impl TopicMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// `InvalidData` for one that is too short.
    pub(crate) fn of(payload: &[u8]) -> io::Result<Self> {
        let frame = frame_of(payload)?;
        let number = payload[FRAME_BYTES..].first_chunk::<CONNECTION_BYTES>();
        let number = number.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            frame,
            connection: u64::from_le_bytes(*number),
        })
    }

    /// Writes it to the beginning of `payload`, which has room for it.
    pub(crate) fn write_to(&self, payload: &mut [u8]) {
        payload[..FRAME_BYTES].copy_from_slice(&self.frame);
        payload[FRAME_BYTES..FRAME_BYTES + CONNECTION_BYTES]
            .copy_from_slice(&self.connection.to_le_bytes());
    }
}

impl TopicLink {
    /// Joins the data space, and waits until the service answers a greeting, so that no request is lost because the
    /// transports of both sides have not found each other yet.
    ///
    /// # Errors
    /// What the transport says; `TimedOut` without an answer.
    pub(crate) fn open(endpoint: &TopicEndpoint, size: usize) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let topics = WorkTopics::join(endpoint, size)?;
        let (replies, publisher) = topics.of_client().map_err(io::Error::other)?;
        let process = u64::from(std::process::id()) << 32;
        let connection = process | COUNT.fetch_add(1, Ordering::Relaxed);
        let (sender, inbox) = channel();
        let wake = Arc::new(WakeUp::new()?);
        let ends = Arc::new(AtomicBool::new(false));
        let receiving = ReceivingThread {
            replies,
            connection,
            sender,
            wake: Arc::clone(&wake),
            ends: Arc::clone(&ends),
        };
        let thread = std::thread::Builder::new().name("tb-replies".into());
        let mut link = Self {
            publisher,
            connection,
            message: vec![0; size],
            inbox,
            wake,
            ends,
            thread: Some(thread.spawn(move || receiving.run())?),
        };
        link.greet()?;
        Ok(link)
    }

    fn greet(&mut self) -> io::Result<()> {
        let greeting = WorkRequest {
            id: GREETING,
            execution: Duration::ZERO,
            priority: 0,
        };
        let give_up = Monotonic.now() + GREETING_LIMIT;
        while Monotonic.now() < give_up {
            self.send(&greeting.to_bytes())?;
            sleep_until(Monotonic.now() + GREETING_DISTANCE)?;
            self.wake.take();
            if self.inbox.try_iter().next().is_some() {
                return Ok(());
            }
        }
        let what = format!("no service answered on these topics within {GREETING_LIMIT}");
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    }
}

impl MessageLink for TopicLink {
    fn watched(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn send(&mut self, frame: &[u8; FRAME_BYTES]) -> io::Result<()> {
        let message = TopicMessage {
            frame: *frame,
            connection: self.connection,
        };
        message.write_to(&mut self.message);
        self.publisher
            .publish(&self.message)
            .map_err(|error: PublishError| io::Error::other(error))
    }

    fn receive(&mut self) -> io::Result<Option<IncomingFrame>> {
        loop {
            // Quiet before the look: a message that comes behind it wakes again.
            self.wake.take();
            match self.inbox.try_recv() {
                Ok(Ok(frame)) if frame.bytes[..8] == GREETING.to_le_bytes() => {}
                Ok(Ok(frame)) => {
                    // Another one may wait, of which the wake-up was just taken.
                    self.wake.signal();
                    return Ok(Some(frame));
                }
                Ok(Err(why)) => return Err(io::Error::other(why)),
                Err(_) => return Ok(None),
            }
        }
    }
}

impl Drop for TopicLink {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _its_panic_is_told_already = thread.join();
        }
    }
}

/// The thread that receives the replies of a connection, and notes when each came.
struct ReceivingThread {
    replies: Subscriber,
    connection: u64,
    sender: Sender<Result<IncomingFrame, String>>,
    wake: Arc<WakeUp>,
    ends: Arc<AtomicBool>,
}

impl ReceivingThread {
    fn run(mut self) {
        precede_the_generator();
        while !self.ends.load(Ordering::Relaxed) {
            if let Err(error) = self.receive() {
                // Nobody listens once the link has gone.
                let _gone = self.sender.send(Err(error.to_string()));
                self.wake.signal();
                return;
            }
        }
    }

    fn receive(&mut self) -> Result<(), TransportError> {
        let Self {
            replies,
            connection,
            sender,
            wake,
            ..
        } = self;
        replies.wait(Some(ATTENTION))?;
        while replies.take(|message| {
            // What is no reply of the service is not for us: other programs may publish there.
            let read = TopicMessage::of(message.payload);
            if let Ok(reply) = read
                && reply.connection == *connection
            {
                let _gone = sender.send(Ok(IncomingFrame {
                    bytes: reply.frame,
                    at: Some(message.arrival),
                }));
                wake.signal();
            }
        })? {}
        while replies.take_event().is_some() {}
        Ok(())
    }
}

/// Lets this thread run before a load generator that spins at the real-time priority which this thread inherited.
fn precede_the_generator() {
    if let Ok(SchedulingSetting::Fifo { priority, .. }) = scheduling_of(own_thread()) {
        // Without the right it stays beside the generator, and times of replies are late by its spinning.
        let _refused = make_current_thread_fifo(priority.saturating_add(1).min(98));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_message_comes_back_as_it_was_written(
            frame in prop::array::uniform24(any::<u8>()),
            connection: u64,
            length in FRAME_BYTES + CONNECTION_BYTES..200_usize,
        ) {
            let mut payload = vec![0xaa; length];
            TopicMessage { frame, connection }.write_to(&mut payload);
            let read = TopicMessage::of(&payload).unwrap();
            prop_assert_eq!((read.frame, read.connection), (frame, connection));
            prop_assert!(payload[FRAME_BYTES + CONNECTION_BYTES..].iter().all(|byte| *byte == 0xaa));
        }

        #[test]
        fn a_message_has_a_frame_and_a_connection_or_is_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let read = TopicMessage::of(&bytes);
            prop_assert_eq!(read.is_ok(), bytes.len() >= FRAME_BYTES + CONNECTION_BYTES);
        }
    }
}
