//! The transport over ZeroMQ, by libzmq: each publisher binds a socket of kind PUB, and each subscriber connects one of kind
//! SUB to all addresses at which publishers may be.
//!
//! A message is one frame. Messages wait in queues of libzmq at both ends, which drop what comes while they are full; the
//! subscriber reads them when it takes one, and keeps the newest as the history says.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tailbound_messages::{HEADER_LENGTH, RawMessage};
use tailbound_time::Duration;
use zmq::{Context, DONTWAIT, Message, PUB, SUB, Socket};

use crate::data_space::longest_message;
use crate::emptiness::Emptiness;
use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The name of the transport in descriptions and errors.
const NAME: &str = "zeromq";

/// The most memory for messages that wait for one subscriber, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// The longest time for which the end of a program waits until its last messages are sent.
const LINGER_MS: i32 = 1_000;

/// The time after which a subscriber looks again for a publisher that was not there; it doubles up to the longest one.
const FIRST_RETRY_MS: i32 = 10;
const LONGEST_RETRY_MS: i32 = 500;

/// Carries messages by ZeroMQ, between the processes of one host or between hosts.
///
/// Nothing is authenticated: whoever reaches the address of a publisher can subscribe. Nobody publishes to a subscriber but
/// who holds one of the addresses that it connects to. A transport has room for 1,023 publishers and subscribers together,
/// and a thread of libzmq.
pub struct ZeroMq {
    context: Context,
    form: ZeroMqForm,
}

#[derive(Clone, Debug)]
enum ZeroMqForm {
    OneHost { space: String },
    Routes(BTreeMap<String, ZeroMqRoute>),
}

/// The addresses of a topic over ZeroMQ, as one program sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZeroMqRoute {
    /// The addresses at which a publisher of this program may listen; it takes the first that is free.
    pub listen: Vec<SocketAddr>,
    /// The addresses of the publishers that a subscriber of this program connects to.
    pub publishers: Vec<SocketAddr>,
}

impl ZeroMq {
    /// Joins the data space of this name on this host. The name has letters, digits, `-` and `_`.
    ///
    /// Its addresses are names of Unix sockets without a file, one for each publisher of a topic: they go with their
    /// publisher, and programs in another network namespace do not see them.
    ///
    /// # Errors
    /// If the name has other characters.
    pub fn on_host(space: &str) -> Result<Self, TransportError> {
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
        if space.is_empty() || space.len() > 32 || !space.chars().all(is_plain) {
            let reason = "a name has 1 to 32 letters, digits, `-` and `_`";
            return Err(refused(format!("join data space `{space}`"), reason));
        }
        let space = space.to_owned();
        Ok(Self::of(ZeroMqForm::OneHost { space }))
    }

    /// Messages go over TCP between the addresses of each topic, by the name of the topic.
    pub fn over_tcp(routes: BTreeMap<String, ZeroMqRoute>) -> Self {
        Self::of(ZeroMqForm::Routes(routes))
    }

    fn of(form: ZeroMqForm) -> Self {
        Self {
            context: Context::new(),
            form,
        }
    }

    fn host_addresses(space: &str, topic: &Topic) -> Vec<String> {
        // Publishers of another type meet at the same addresses, so that their messages are refused and counted.
        let number = tailbound_messages::topic_number(&topic.name, "");
        let address = |place| format!("ipc://@tailbound-{space}-{number:016x}-{place}");
        (0..topic.publishers).map(address).collect()
    }

    fn route<'a>(
        routes: &'a BTreeMap<String, ZeroMqRoute>,
        topic: &Topic,
    ) -> Result<&'a ZeroMqRoute, TransportError> {
        routes.get(&topic.name).ok_or_else(|| {
            let attempt = format!("carry topic `{}`", topic.name);
            refused(attempt, "it has no route; give its addresses")
        })
    }

    /// The addresses at which a publisher may listen.
    fn listen_addresses(&self, topic: &Topic) -> Result<Vec<String>, TransportError> {
        match &self.form {
            ZeroMqForm::OneHost { space } => Ok(Self::host_addresses(space, topic)),
            ZeroMqForm::Routes(routes) => Ok(tcp(&Self::route(routes, topic)?.listen)),
        }
    }

    /// The addresses at which a subscriber expects publishers.
    fn publisher_addresses(&self, topic: &Topic) -> Result<Vec<String>, TransportError> {
        match &self.form {
            ZeroMqForm::OneHost { space } => Ok(Self::host_addresses(space, topic)),
            ZeroMqForm::Routes(routes) => Ok(tcp(&Self::route(routes, topic)?.publishers)),
        }
    }

    fn publishing_socket(&self, topic: &Topic) -> zmq::Result<Socket> {
        let socket = self.context.socket(PUB)?;
        socket.set_linger(LINGER_MS)?;
        socket.set_sndhwm(integer(queue_length(topic)))?;
        Ok(socket)
    }

    fn subscribing_socket(&self, topic: &Topic, addresses: &[String]) -> zmq::Result<Socket> {
        let socket = self.context.socket(SUB)?;
        socket.set_linger(0)?;
        socket.set_rcvhwm(integer(queue_length(topic)))?;
        socket.set_reconnect_ivl(FIRST_RETRY_MS)?;
        socket.set_reconnect_ivl_max(LONGEST_RETRY_MS)?;
        // A peer that sends more is cut off before its message takes memory.
        socket.set_maxmsgsize(i64::try_from(longest_message(topic)).unwrap_or(i64::MAX))?;
        socket.set_subscribe(b"")?;
        for address in addresses {
            socket.connect(address)?;
        }
        Ok(socket)
    }
}

impl Transport for ZeroMq {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: NAME,
            // TCP sends again, but a queue that is full drops the newest message.
            reliable: false,
            between_hosts: matches!(self.form, ZeroMqForm::Routes(_)),
            longest: 16 << 20,
            history: 4_096,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        check_memory(topic)?;
        let attempt = || format!("publish topic `{}`", topic.name);
        let addresses = self.listen_addresses(topic)?;
        let socket = self.publishing_socket(topic);
        let socket = socket.map_err(|error| refused(attempt(), error))?;
        for address in &addresses {
            match socket.bind(address) {
                Ok(()) => {
                    return Ok(Box::new(FrameSender { socket }));
                }
                Err(zmq::Error::EADDRINUSE) => {}
                Err(error) => return Err(refused(format!("listen at {address}"), error)),
            }
        }
        let reason = format!(
            "of its {} addresses for publishers none is free; raise `publishers`, or give it more addresses",
            addresses.len()
        );
        Err(refused(attempt(), reason))
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        check_memory(topic)?;
        let attempt = || format!("subscribe topic `{}`", topic.name);
        let addresses = self.publisher_addresses(topic)?;
        if addresses.is_empty() {
            return Err(refused(
                attempt(),
                "its route has no address of a publisher",
            ));
        }
        let socket = self.subscribing_socket(topic, &addresses);
        let history = topic.quality.history as usize;
        Ok(Box::new(FrameReceiver {
            socket: socket.map_err(|error| refused(attempt(), error))?,
            waiting: VecDeque::with_capacity(history + 1),
            history,
            most_receptions: most_receptions(topic),
            fresh: false,
            emptiness: Emptiness::unseen(),
            timeout_ms: -1,
        }))
    }
}

impl std::fmt::Debug for ZeroMq {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ZeroMq")
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

struct FrameSender {
    socket: Socket,
}

impl Sender for FrameSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        // Header and payload are written into the memory of libzmq: a frame of one slice would be copied there as a whole.
        let mut message = Message::with_size(header.len() + payload.len());
        let (head, rest) = message.split_at_mut(header.len());
        head.copy_from_slice(header);
        rest.copy_from_slice(payload);
        self.socket
            .send(message, DONTWAIT)
            .map_err(|error| refused("send a message".to_owned(), error))
    }
}

struct FrameReceiver {
    socket: Socket,
    waiting: VecDeque<Message>,
    history: usize,
    /// The number of receptions that empty full queues. A flood that comes faster than it is read does not hold up the
    /// subscriber for longer.
    most_receptions: usize,
    /// Whether what waits was received just now, for the call of `take` that follows `wait`: to see that no more is there
    /// would cost a system call.
    fresh: bool,
    emptiness: Emptiness,
    /// The longest wait of the socket in a reception, as it is set; -1 is for ever.
    timeout_ms: i32,
}

impl FrameReceiver {
    /// Receives a message; the oldest one gives its place if there is no room. Whether a message came.
    fn receive(&mut self, flags: i32) -> Result<bool, TransportError> {
        let mut message = Message::new();
        match self.socket.recv(&mut message, flags) {
            Ok(()) => {
                if self.waiting.len() == self.history {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(message);
                Ok(true)
            }
            Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => Ok(false),
            Err(error) => Err(refused("receive a message".to_owned(), error)),
        }
    }

    /// Receives what waits in the queues.
    fn drain(&mut self) -> Result<(), TransportError> {
        let mut emptiness = self.emptiness;
        let outcome = emptiness.look(|| {
            for _ in 0..self.most_receptions {
                if !self.receive(DONTWAIT)? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        self.emptiness = emptiness;
        outcome
    }
}

impl Receiver for FrameReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        if !std::mem::take(&mut self.fresh) {
            self.drain()?;
        }
        match self.waiting.pop_front() {
            Some(message) => {
                visit(RawMessage::from(&*message));
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if !self.waiting.is_empty() {
            return Ok(true);
        }
        // libzmq counts milliseconds. Rounded down, a short limit would make a loop of waits spin.
        let timeout_ms = limit.map_or(-1, |limit| {
            i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        if self.timeout_ms != timeout_ms {
            self.socket
                .set_rcvtimeo(timeout_ms)
                .map_err(|error| refused("wait for a message".to_owned(), error))?;
            self.timeout_ms = timeout_ms;
        }
        loop {
            // A signal ends a wait; one without a limit goes on.
            self.fresh = self.receive(0)?;
            if self.fresh && !self.emptiness.lasts() {
                self.drain()?;
            }
            if self.fresh || limit.is_some() {
                return Ok(self.fresh);
            }
        }
    }
}

/// The length of the queues of libzmq, of which each connection has one at each end: what the contract admits in an
/// interval, or the history. Small messages have longer queues, since a burst may come faster than the threads of libzmq
/// move it, and a full queue drops the newest.
fn queue_length(topic: &Topic) -> usize {
    const LONG_QUEUE: usize = 1_000;
    const MEMORY_OF_LONG_QUEUE: usize = 4 << 20;
    let admitted = topic.contract.map_or(0, |contract| contract.messages);
    let needed = admitted.max(topic.quality.history) as usize;
    needed.max(LONG_QUEUE.min(MEMORY_OF_LONG_QUEUE / longest_message(topic)))
}

/// The number of receptions after which a subscriber that stayed away has read everything that waited.
fn most_receptions(topic: &Topic) -> usize {
    // A socket's buffers in the kernel have room for fewer messages than this by default.
    const IN_KERNEL: usize = 8_192;
    let each = queue_length(topic).saturating_mul(2) + IN_KERNEL;
    each.saturating_mul(topic.publishers as usize)
}

fn check_memory(topic: &Topic) -> Result<(), TransportError> {
    let messages = queue_length(topic).saturating_mul(topic.publishers as usize);
    let memory = messages.saturating_mul(longest_message(topic));
    if memory <= MOST_MEMORY {
        return Ok(());
    }
    Err(TransportError::Lacks {
        transport: NAME,
        quality: format!("{memory} bytes for messages that wait"),
        remedy: format!(
            "let publishers times history (or messages of the contract) times size of topic `{}` be at most {MOST_MEMORY}",
            topic.name
        ),
    })
}

fn integer(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn tcp(addresses: &[SocketAddr]) -> Vec<String> {
    let address = |address| format!("tcp://{address}");
    addresses.iter().map(address).collect()
}

fn refused(attempt: String, reason: impl ToString) -> TransportError {
    TransportError::Refused {
        transport: NAME,
        attempt,
        reason: reason.to_string(),
    }
}
