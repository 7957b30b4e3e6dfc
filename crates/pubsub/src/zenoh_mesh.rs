//! The transport over Zenoh: each program is a peer, listens at one address, and connects to all others of its data space.
//!
//! Messages wait in a ring of the subscriber, in which a newer one takes the place of the oldest.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant as Moment;

use tailbound_messages::{HEADER_LENGTH, RawMessage, topic_number};
use tailbound_time::Duration;
use zenoh::handlers::{RingChannel, RingChannelHandler};
use zenoh::pubsub::{Publisher as ZenohPublisher, Subscriber as ZenohSubscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Config, Session, Wait};

use crate::data_space::longest_message;
use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The name of the transport in descriptions and errors.
const NAME: &str = "zenoh";

/// The most memory for messages that wait for one subscriber, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// The configuration that all peers share: no multicast looks for peers, and a peer that is not there yet is tried again.
const SETTINGS: [(&str, &str); 5] = [
    ("mode", "\"peer\""),
    ("scouting/multicast/enabled", "false"),
    ("connect/exit_on_failure", "false"),
    ("connect/timeout_ms", "-1"),
    (
        "connect/retry",
        "{ period_init_ms: 50, period_max_ms: 500, period_increase_factor: 2 }",
    ),
];

/// Carries messages by Zenoh over TCP, between the programs of one host or between hosts.
///
/// Nothing is authenticated or encrypted: whoever reaches the address of a peer can publish and subscribe.
#[derive(Debug)]
pub struct ZenohMesh {
    session: Session,
}

impl ZenohMesh {
    /// Joins the data space whose programs listen at these addresses, each at one: this program takes the first that is
    /// free, and connects to the others as soon as somebody listens there.
    ///
    /// # Errors
    /// If no address is free, or none of this host.
    pub fn among(addresses: &[SocketAddr]) -> Result<Self, TransportError> {
        let mut reason = "there is no address".to_owned();
        for (place, own) in addresses.iter().enumerate() {
            let mut others = addresses.to_vec();
            others.remove(place);
            match configuration(*own, &others).and_then(|settings| zenoh::open(settings).wait()) {
                Ok(session) => return Ok(Self { session }),
                Err(error) => reason = error.to_string(),
            }
        }
        let attempt = format!(
            "listen at one of {} addresses of the data space",
            addresses.len()
        );
        Err(refused(attempt, reason))
    }
}

fn configuration(own: SocketAddr, others: &[SocketAddr]) -> zenoh::Result<Config> {
    let mut settings = Config::default();
    for (key, value) in SETTINGS {
        settings.insert_json5(key, value)?;
    }
    let endpoint = |address: &SocketAddr| format!("\"tcp/{address}\"");
    let others = others.iter().map(endpoint).collect::<Vec<_>>();
    settings.insert_json5("listen/endpoints", &format!("[{}]", endpoint(&own)))?;
    settings.insert_json5("connect/endpoints", &format!("[{}]", others.join(",")))?;
    Ok(settings)
}

/// The key of a topic. Publishers of another type have the same one, so that their messages are refused and counted. A number,
/// since Zenoh gives some characters of names a meaning.
fn key(topic: &Topic) -> String {
    format!("tailbound/{:016x}", topic_number(&topic.name, ""))
}

impl Transport for ZenohMesh {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: NAME,
            // TCP sends again, but a queue that is full drops the newest message.
            reliable: false,
            between_hosts: true,
            longest: 16 << 20,
            history: 4_096,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        check_memory(topic)?;
        let publisher = self
            .session
            .declare_publisher(key(topic))
            .congestion_control(CongestionControl::Drop)
            // A message does not wait for others, with which it could share a segment.
            .express(true)
            .wait();
        let attempt = || format!("publish topic `{}`", topic.name);
        Ok(Box::new(PutSender {
            publisher: publisher.map_err(|error| refused(attempt(), error))?,
            _session: self.session.clone(),
        }))
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        check_memory(topic)?;
        let history = topic.quality.history as usize;
        let ring = RingChannel::new(history);
        let subscriber = self
            .session
            .declare_subscriber(key(topic))
            .with(ring)
            .wait();
        let attempt = || format!("subscribe topic `{}`", topic.name);
        Ok(Box::new(ZenohReceiver {
            subscriber: subscriber.map_err(|error| refused(attempt(), error))?,
            _session: self.session.clone(),
            waiting: VecDeque::with_capacity(history + 1),
            history,
        }))
    }
}

struct PutSender {
    publisher: ZenohPublisher<'static>,
    /// A session ends with the last of its handles, and a publisher is none.
    _session: Session,
}

impl Sender for PutSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        let mut message = Vec::with_capacity(header.len() + payload.len());
        message.extend_from_slice(header);
        message.extend_from_slice(payload);
        let put = self.publisher.put(message).wait();
        put.map_err(|error| refused("send a message".to_owned(), error))
    }
}

struct ZenohReceiver {
    subscriber: ZenohSubscriber<RingChannelHandler<Sample>>,
    _session: Session,
    /// Messages from the ring. A wait takes one, and newer ones must still be able to take its place.
    waiting: VecDeque<Sample>,
    history: usize,
}

impl ZenohReceiver {
    fn keep(&mut self, sample: Sample) {
        if self.waiting.len() == self.history {
            self.waiting.pop_front();
        }
        self.waiting.push_back(sample);
    }
}

impl Receiver for ZenohReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        // A flood that comes faster than it is read does not hold up the subscriber.
        for _ in 0..self.history {
            match self.subscriber.try_recv().map_err(failed)? {
                Some(sample) => self.keep(sample),
                None => break,
            }
        }
        match self.waiting.pop_front() {
            Some(sample) => {
                visit(RawMessage::from(&*sample.payload().to_bytes()));
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if !self.waiting.is_empty() {
            return Ok(true);
        }
        let limit = limit.map(|limit| std::time::Duration::from_nanos(limit.as_nanos()));
        let sample = match limit.and_then(|limit| Moment::now().checked_add(limit)) {
            Some(end) => self.subscriber.recv_deadline(end).map_err(failed)?,
            None => Some(self.subscriber.recv().map_err(failed)?),
        };
        if let Some(sample) = sample {
            self.keep(sample);
        }
        Ok(!self.waiting.is_empty())
    }
}

fn check_memory(topic: &Topic) -> Result<(), TransportError> {
    let memory = longest_message(topic).saturating_mul(topic.quality.history as usize);
    if memory <= MOST_MEMORY {
        return Ok(());
    }
    Err(TransportError::Lacks {
        transport: NAME,
        quality: format!("{memory} bytes for messages that wait"),
        remedy: format!(
            "let history times size of topic `{}` be at most {MOST_MEMORY}",
            topic.name
        ),
    })
}

fn failed(error: zenoh::Error) -> TransportError {
    refused("receive a message".to_owned(), error)
}

fn refused(attempt: String, reason: impl ToString) -> TransportError {
    TransportError::Refused {
        transport: NAME,
        attempt,
        reason: reason.to_string(),
    }
}
